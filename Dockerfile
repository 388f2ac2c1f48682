# Two images from one file. By default the CPU one; with TORCH_INDEX="" torch's default build, which brings CUDA, and
# with PACKAGES="gcc libc6-dev" the compiler that Triton calls (docker-compose.yml: gateway-gpu).
FROM python:3.11-slim AS build
WORKDIR /src
RUN python -m venv /venv
ENV PATH=/venv/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY constraints.txt ./
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN pip install -c constraints.txt ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} torch hatchling editables
COPY pyproject.toml README.md LICENSE ./
COPY gateway gateway
COPY engine engine
COPY web web
RUN pip install -c constraints.txt --no-build-isolation .

FROM python:3.11-slim
ARG PACKAGES=""
RUN if [ -n "$PACKAGES" ]; then \
        apt-get update && apt-get install -y --no-install-recommends $PACKAGES && rm -rf /var/lib/apt/lists/*; \
    fi
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin vivavoce \
    && install -d -o vivavoce -g vivavoce /models
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HF_HOME=/models HOME=/tmp
USER vivavoce
WORKDIR /tmp
VOLUME /models
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=300s --retries=3 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/health/ready', timeout=2)"]
ENTRYPOINT ["vivavoce"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8000"]
