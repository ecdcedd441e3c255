# The judge daemon with its default embedding model, listening on a Unix socket.
#
#     docker build -t judged .
#     docker run --read-only --cap-drop ALL --stop-timeout 30 -v judged-run:/run/judged judged
#
# A process that shares the volume, and the group 10001, then calls unix:/run/judged/judged.sock.
# For release builds pin the base: --build-arg BASE=python:3.11-slim@sha256:...
ARG BASE=python:3.11-slim

FROM ${BASE} AS builder
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY deploy/image-steps.sh deploy/requirements.lock deploy/build-requirements.lock deploy/
COPY client/ client/
COPY server/ server/
RUN deploy/image-steps.sh install /src /opt/judged \
    && deploy/image-steps.sh models /opt/judged \
    && deploy/image-steps.sh strip /opt/judged

FROM ${BASE}
LABEL org.opencontainers.image.title="judged" \
      org.opencontainers.image.description="A judge daemon for retrieval results" \
      org.opencontainers.image.licenses="Apache-2.0"
# Docker gives a new volume the owner and the mode of its folder here. Nothing is installed later, so
# the base's installers are removed.
RUN install -d -m 0750 -o 10001 -g 10001 /run/judged \
    && python -m pip uninstall --quiet --yes --root-user-action=ignore wheel setuptools pip
COPY --from=builder /opt/judged /opt/judged
# JUDGED_* are settings; flags after the image's name override them. With JUDGED_MODEL set, the server
# refuses to start without that model. Vectors are cached in memory: to keep them longer, mount a
# volume that 10001 may write to at JUDGED_VECTOR_CACHE_DIR and set JUDGED_VECTOR_CACHE=disk; the same
# for replies of language models with JUDGED_LLM_CACHE. ORT_DISABLE_TELEMETRY stops ONNX Runtime's
# official builds from reporting usage.
ENV PATH=/opt/judged/venv/bin:$PATH \
    JUDGED_LISTEN=unix:/run/judged/judged.sock \
    JUDGED_PORT_FILE=/run/judged/address \
    JUDGED_MODELS_DIR=/opt/judged/models \
    JUDGED_MODEL=all-minilm-l6-v2 \
    JUDGED_VECTOR_CACHE=memory \
    JUDGED_VECTOR_CACHE_DIR=/var/lib/judged/vectors \
    JUDGED_LLM_CACHE=memory \
    JUDGED_LLM_CACHE_DIR=/var/lib/judged/replies \
    ORT_DISABLE_TELEMETRY=1
USER 10001:10001
VOLUME ["/run/judged"]
HEALTHCHECK --interval=15s --timeout=5s --start-period=15s --retries=3 \
    CMD ["python", "-m", "judged_server.healthcheck"]
ENTRYPOINT ["judged-server"]
