import { join } from 'node:path'
import { startSandbox } from './server.ts'

/** The sandbox as a process of its own: `npm run sandbox`. */
const port = Number(process.env.SANDBOX_PORT ?? 3001)
if (!Number.isInteger(port) || port < 0 || port > 65_535) {
  process.stderr.write('SANDBOX_PORT must be a port number\n')
  process.exit(1)
}
const publicUrl = (process.env.PUBLIC_URL ?? 'http://127.0.0.1:3000').replace(/\/+$/, '')

const sandbox = await startSandbox({
  port,
  dataDir: join(process.env.DATA_DIR ?? './data', 'sandbox'),
  webhookUrl: `${publicUrl}/webhooks`,
  redirectUris: [`${publicUrl}/oauth/callback`],
}).catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
  process.exit(1)
})

process.stdout.write(`Sandbox provider on ${sandbox.url}
  ${sandbox.url}/           the virtual terminals
  ${sandbox.url}/_sandbox/  the control surface

Start the service with:
  MP_API_URL=${sandbox.url}
  MP_AUTH_URL=${sandbox.url}
  MP_CLIENT_ID=${sandbox.info.client_id}
  MP_CLIENT_SECRET=${sandbox.info.client_secret}
  MP_WEBHOOK_SECRETS=${sandbox.info.webhook_secrets.join(',')}
  PUBLIC_URL=${publicUrl}
`)

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  // A second signal ends at once: the ledger is whole at every moment.
  process.once(signal, () => {
    process.once(signal, () => process.exit(1))
    void sandbox.close().then(() => process.exit(0))
  })
}
