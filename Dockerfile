# The digest fixes the bytes; the tag is for readers. Both are of Docker's official image of the Node that package.json names.
ARG NODE_IMAGE=node:24.21.0-slim@sha256:0e0ff40c39bc087845bfb27465a0df4ea419520094bc35842ff83dd8cbe6f9b6
FROM ${NODE_IMAGE}

ENV NODE_ENV=production
WORKDIR /app

# No devDependencies and no install scripts: the image brings its own Node.
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --ignore-scripts && npm cache clean --force

COPY LICENSE ./
COPY migrations ./migrations
COPY public ./public
COPY docs ./docs
# Of `flows:new`.
COPY templates ./templates
COPY sandbox ./sandbox
COPY src ./src

# Compiles the modules once, for every later start: by one that loads all of them, and ends since no machine has its address.
# Node reads what the same user compiled, so it runs as that user, who may not write there afterwards.
RUN cache=node_modules/.cache/tillbridge-compiled; mkdir -p $cache && chown node $cache \
  && setpriv --reuid=node --regid=node --clear-groups env DATA_DIR=/tmp/once PORT=0 SANDBOX_PORT=0 \
    SYNC_HOST=192.0.2.1 SYNC_PORT=0 SYNC_TOKEN=$(printf %032d 0) node --max-semi-space-size=16 src/app/start.js; \
  rm -r /tmp/once && chown -R root:root $cache && chmod -R go=rX $cache && test -n "$(ls -A $cache)"

# Shown in the first line of the log and in /health: docker build --build-arg COMMIT=$(git rev-parse HEAD)
ARG COMMIT=unknown
RUN printf '%s\n' "$COMMIT" > COMMIT

# All that the service writes: the embedded database and generated secrets, when DATABASE_URL is unset. The rest of the
# root filesystem may be read-only.
RUN mkdir /data && chown node:node /data && chmod 0700 /data
ENV DATA_DIR=/data HOST=0.0.0.0
VOLUME /data
USER node

EXPOSE 3000

HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT || 3000}/health`).then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]

# node itself gets the stop signal; npm would not pass it on.
CMD ["node", "--max-semi-space-size=16", "src/app/start.js"]
