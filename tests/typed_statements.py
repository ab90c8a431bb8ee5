"""A plugin of mypy: holds what `fetch` is given to the TypedDict of its statement.

Mypy infers a dict display before it knows the type variable that the statement binds, so that
``fetch(statement, {...})`` could be held to nothing. Here the statement is looked at first.
"""

from collections.abc import Callable

from mypy.plugin import MethodSigContext, Plugin
from mypy.types import (
    AnyType,
    CallableType,
    FunctionLike,
    Instance,
    TypeOfAny,
    get_proper_type,
)

_METHODS = {
    f"adkpg.database.{name}"
    for name in ("runner.Runner.fetch", "runner.Runner.fetch_one", "transaction.Transaction.fetch")
}
_STATEMENT = "adkpg.sql.Statement"


class _TypedStatements(Plugin):
    def get_method_signature_hook(
        self, fullname: str
    ) -> Callable[[MethodSigContext], FunctionLike] | None:
        return _bound if fullname in _METHODS else None


def _bound(context: MethodSigContext) -> FunctionLike:
    signature = context.default_signature
    given = context.args[0]
    if not given or not isinstance(signature, CallableType):
        return signature
    statement = get_proper_type(context.api.get_expression_type(given[0]))
    if not isinstance(statement, Instance) or statement.type.fullname != _STATEMENT:
        return signature
    # Tests run each call that they hold.
    own = getattr(context.api, "path", "").startswith("adkpg")
    parameters = statement.args[0] if own else AnyType(TypeOfAny.special_form)
    types = [statement, parameters, *signature.arg_types[2:]]
    return signature.copy_modified(arg_types=types, variables=[])


def plugin(version: str) -> type[Plugin]:
    """What mypy looks for."""
    return _TypedStatements
