# The images of jobqueue: docker build --target server|worker|ctl .
#
# A rebuild takes up what Debian has mended. Whoever needs the same bytes again names a digest:
# --build-arg DEBIAN=debian:13-slim@sha256:…
ARG DEBIAN=debian:13-slim
# Without a shell and a package manager: for the server, which runs nothing but itself. Its Python is
# Debian's, the same as that of the other images.
ARG DISTROLESS=gcr.io/distroless/python3-debian13:nonroot

# ------------------------------------------------------------------------------------------- build

FROM ${DEBIAN} AS tools
# Versions are those of the Debian release: a pin would keep out its security updates.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends binutils python3.13-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY deploy/image/requirements/build.txt deploy/image/requirements/
RUN --mount=type=cache,target=/root/.cache/pip \
    python3.13 -m venv /opt/build \
    && /opt/build/bin/pip install --require-hashes -r deploy/image/requirements/build.txt

FROM tools AS wheel
COPY pyproject.toml hatch_build.py README.md LICENSE alembic.ini ./
COPY alembic alembic
COPY jobqueue jobqueue
# The checkout's history is not sent along, so the commit that --version tells is an argument.
ARG COMMIT=unknown
RUN echo "${COMMIT}" > jobqueue/_commit.txt \
    && /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels .

FROM tools AS stage
COPY deploy/image deploy/image
COPY --from=wheel /wheels /wheels

FROM stage AS stage-server
RUN --mount=type=cache,target=/root/.cache/uv \
    deploy/image/stage.sh jq-server /wheels/*.whl /app/.venv

FROM stage AS stage-worker
RUN --mount=type=cache,target=/root/.cache/uv \
    deploy/image/stage.sh jq-worker /wheels/*.whl /app/.venv

FROM stage AS stage-ctl
RUN --mount=type=cache,target=/root/.cache/uv \
    deploy/image/stage.sh jq-ctl /wheels/*.whl /app/.venv

# ---------------------------------------------------------------------------------------- run time

# With a shell: for handlers that are commands, and for people.
FROM ${DEBIAN} AS debian
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates python3.13 tini \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/* \
    && groupadd --gid 65532 jobqueue \
    && useradd --uid 65532 --gid 65532 --key UID_MAX=65532 --no-create-home --home-dir /tmp \
        --shell /usr/sbin/nologin jobqueue

# ------------------------------------------------------------------------------------------ images

FROM ${DISTROLESS} AS server
ARG COMMIT=unknown
LABEL org.opencontainers.image.title="jobqueue server" \
      org.opencontainers.image.description="jq-server: the control plane of jobqueue" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.revision="${COMMIT}" \
      org.opencontainers.image.licenses="MIT"
COPY --from=stage-server /app /app
# The root file system may be read-only: nothing is written but to /tmp.
ENV PATH=/app/.venv/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    JQ_HEALTH_PORT=8080 \
    JQ_METRICS_PORT=9090
WORKDIR /tmp
USER 65532:65532
EXPOSE 50051 50052 8080 9090
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["/app/.venv/bin/python", "-m", "jobqueue.cli.healthcheck"]
ENTRYPOINT ["/app/.venv/bin/jq-server"]

FROM debian AS worker
ARG COMMIT=unknown
LABEL org.opencontainers.image.title="jobqueue worker" \
      org.opencontainers.image.description="jq-worker: runs the jobs of jobqueue" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.revision="${COMMIT}" \
      org.opencontainers.image.licenses="MIT"
COPY --from=stage-worker /app /app
ENV PATH=/app/.venv/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/tmp \
    LANG=C.UTF-8 \
    PYTHONDONTWRITEBYTECODE=1 \
    JQ_HEALTH_PORT=8081 \
    JQ_METRICS_PORT=9091
# Modules that lie here can be named as handlers.
WORKDIR /app/handlers
USER 65532:65532
EXPOSE 8081 9091
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["/app/.venv/bin/python", "-m", "jobqueue.cli.healthcheck"]
# Handlers start programs, and these may leave orphans. Those fall to process 1, and only an init
# process buries them.
ENTRYPOINT ["/usr/bin/tini", "--", "/app/.venv/bin/jq-worker"]

FROM debian AS ctl
ARG COMMIT=unknown
LABEL org.opencontainers.image.title="jobqueue ctl" \
      org.opencontainers.image.description="jq-ctl: the command line of jobqueue's operators" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.revision="${COMMIT}" \
      org.opencontainers.image.licenses="MIT"
COPY --from=stage-ctl /app /app
ENV PATH=/app/.venv/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/tmp \
    LANG=C.UTF-8 \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /tmp
USER 65532:65532
STOPSIGNAL SIGTERM
# It ends by itself: there is nothing to be healthy.
HEALTHCHECK NONE
ENTRYPOINT ["/app/.venv/bin/jq-ctl"]
