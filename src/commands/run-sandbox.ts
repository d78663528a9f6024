import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startSandbox } from '../../sandbox/server.ts'
import { folderProblems } from '../app/check-folders.ts'
import { loadConfig } from '../app/config.ts'
import { type CommandHelp, runCommand, say } from './run-command.ts'

const help: CommandHelp = {
  usage: 'npm run sandbox',
  about:
    'Starts the sandbox of the provider on loopback, for a service in another process (MP_API_URL, MP_AUTH_URL). Settings: SANDBOX_PORT, DATA_DIR, PUBLIC_URL of the service.',
  exitCodes: [
    [0, 'it was stopped'],
    [1, 'it could not start; the message says why'],
    [2, 'the command line is wrong'],
  ],
  example: 'SANDBOX_PORT=3001 npm run sandbox',
}

await runCommand(help, async () => {
  parseArgs({ options: {} })
  // Only these: other settings belong to the service that uses the sandbox, such as the address of the sandbox itself.
  const { SANDBOX_PORT, DATA_DIR, PUBLIC_URL, HOST, PORT } = process.env
  const own = { PROVIDER: 'sandbox', SANDBOX_PORT, DATA_DIR, PUBLIC_URL, HOST, PORT }
  const { sandboxPort, dataDir, publicUrl } = loadConfig(own, folderProblems)
  const sandbox = await startSandbox({
    port: sandboxPort,
    dataDir: join(dataDir, 'sandbox'),
    webhookUrl: `${publicUrl}/webhooks`,
    redirectUris: [`${publicUrl}/oauth/callback`],
  })
  say(`Sandbox provider on ${sandbox.url}
  ${sandbox.url}/           the virtual terminals
  ${sandbox.url}/_sandbox/  what can go wrong, to provoke it

Start the service with:
  MP_API_URL=${sandbox.url}
  MP_AUTH_URL=${sandbox.url}
  MP_CLIENT_ID=${sandbox.info.client_id}
  MP_CLIENT_SECRET=${sandbox.info.client_secret}
  MP_WEBHOOK_SECRETS=${sandbox.info.webhook_secrets.join(',')}
  PUBLIC_URL=${publicUrl}`)
  const stopped = Promise.withResolvers<number>()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    // A second signal ends the process at once: the ledger on the disk is always complete.
    process.once(signal, () => {
      process.once(signal, () => process.exit(1))
      void sandbox.close().then(() => stopped.resolve(0))
    })
  }
  return await stopped.promise
})
