# docs/guides/service.md says how to run it.

FROM rust:1.95-slim-trixie AS build
WORKDIR /build
COPY Cargo.toml Cargo.lock ./
COPY crates crates
RUN cargo build --release --locked -p springtide

FROM debian:trixie-slim
# The program has root certificates of its own. The system's are for what else may be
# run in the image.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/*
# By number, so that a volume can be given to it from outside.
RUN groupadd --gid 10001 springtide \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /project \
        --shell /usr/sbin/nologin springtide \
    && install -d -o springtide -g springtide /project
COPY --from=build /build/target/release/springtide /usr/local/bin/springtide
USER 10001:10001
WORKDIR /project
VOLUME /project
ENTRYPOINT ["springtide"]
CMD ["run", "--service"]
