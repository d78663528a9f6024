import { join } from 'node:path'
import { startSandbox } from './server.ts'

/** The sandbox as a process of its own: `npm run sandbox`. */
const usage = 'usage: npm run sandbox\n'
const help = `${usage}
Starts the provider's stand-in on loopback, for a service of its own (MP_API_URL, MP_AUTH_URL). Settings: SANDBOX_PORT, DATA_DIR,
PUBLIC_URL of the service.

exit codes:
  0  it was stopped
  1  it could not start; the message says why
  2  the command line is wrong

example:
  SANDBOX_PORT=3001 npm run sandbox
`
const given = process.argv.slice(2)
if (given.length > 0) {
  const asksForHelp = given.includes('--help') || given.includes('-h')
  if (asksForHelp) process.stdout.write(help)
  else process.stderr.write(usage)
  process.exit(asksForHelp ? 0 : 2)
}

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
