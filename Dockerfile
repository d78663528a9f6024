FROM node:24-slim

ENV NODE_ENV=production
WORKDIR /app

# No devDependencies and no install scripts: the image brings its own Node.
COPY package.json package-lock.json ./
RUN npm ci --omit=dev --ignore-scripts && npm cache clean --force

COPY migrations ./migrations
COPY public ./public
COPY src ./src

# The embedded database and generated secrets, when DATABASE_URL is unset.
RUN mkdir /data && chown node:node /data && chmod 0700 /data
ENV DATA_DIR=/data HOST=0.0.0.0
VOLUME /data
USER node

EXPOSE 3000

HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT || 3000}/health`).then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]

# node itself gets the stop signal; npm would not pass it on.
CMD ["node", "--max-semi-space-size=16", "src/main.ts"]
