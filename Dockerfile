# The image of lockkeeper: the program alone, and the certificates of public authorities.
#
#   docker build --build-arg VERSION=0.1.0 -t lockkeeper .
#
# `make image` builds the same program and configuration for two architectures without Docker; two builds are equal.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=0.0.0-devel
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -buildvcs=false -ldflags "-s -w -X main.release=v$VERSION" -o /lockkeeper ./cmd/lockkeeper

FROM scratch
ARG VERSION=0.0.0-devel
ARG REVISION=unknown
LABEL org.opencontainers.image.title="lockkeeper" \
      org.opencontainers.image.description="Locks with priorities for jobs and commands, kept in ZooKeeper" \
      org.opencontainers.image.documentation="https://github.com/lockkeeper/lockkeeper/blob/main/docs/README.md" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.source="https://github.com/lockkeeper/lockkeeper" \
      org.opencontainers.image.version="$VERSION"
COPY --from=build --chmod=0644 /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build --chmod=0755 /lockkeeper /usr/local/bin/lockkeeper
ENV PATH=/usr/local/bin
WORKDIR /etc/lockkeeper
USER 65532:65532
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 CMD ["lockkeeper", "healthcheck"]
ENTRYPOINT ["lockkeeper"]
CMD ["run"]
