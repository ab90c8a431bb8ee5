# adkpg's command line: docker build -t adkpg . && docker run --rm -e ADKPG_DATABASE_URL adkpg db upgrade
# For one image for ever, name it by its digest: --build-arg PYTHON=python@sha256:...
ARG PYTHON=python:3.13-slim
FROM ${PYTHON} AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE constraints-image.txt ./
COPY adkpg ./adkpg
COPY alembic ./alembic
# The file is complete, and has what builds the wheel, too; so nothing comes without a hash.
RUN python -m venv /opt/adkpg && /opt/adkpg/bin/pip install --no-cache-dir --no-deps --require-hashes -r constraints-image.txt && /opt/adkpg/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM ${PYTHON}
COPY --from=build /opt/adkpg /opt/adkpg
ENV PATH=/opt/adkpg/bin:$PATH PYTHONUNBUFFERED=1
WORKDIR /app
USER 1000
# No HEALTHCHECK: most commands end by themselves. Servers and workers answer GET /readyz, as
# docker-compose.yml and the page on Kubernetes ask them.
ENTRYPOINT ["adkpg"]
CMD ["--help"]
