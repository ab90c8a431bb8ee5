# adkpg's command line: docker build -t adkpg . && docker run --rm -e ADKPG_DATABASE_URL adkpg db upgrade
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY adkpg ./adkpg
COPY alembic ./alembic
RUN python -m venv /opt/adkpg && /opt/adkpg/bin/pip install --no-cache-dir '.[local,console]'

FROM python:3.13-slim
COPY --from=build /opt/adkpg /opt/adkpg
ENV PATH=/opt/adkpg/bin:$PATH PYTHONUNBUFFERED=1
WORKDIR /app
USER 1000
# No HEALTHCHECK: most commands end by themselves. Servers and workers answer GET /readyz, as
# docker-compose.yml and the page on Kubernetes ask them.
ENTRYPOINT ["adkpg"]
CMD ["--help"]
