import { join } from 'node:path'
import type { Config } from './config.ts'
import type { ProviderAccess } from './payment-side.ts'
import { StartError } from './start-error.ts'

type FoundProvider = { access: ProviderAccess; sandbox?: { url: string; close(): Promise<void> } }

/** The real provider, an external sandbox, or the built-in one, which is loaded only then. */
export async function findProvider(
  config: Config,
  localUrl: string,
  publicUrl: string,
): Promise<FoundProvider> {
  if (config.provider === 'mercadopago') {
    return {
      access: {
        apiUrl: config.mpApiUrl as string,
        authUrl: config.mpAuthUrl as string,
        clientId: config.mpClientId as string,
        clientSecret: config.mpClientSecret as string,
        webhookSecrets: config.mpWebhookSecrets,
      },
    }
  }
  if (config.mpApiUrl !== undefined && config.mpAuthUrl !== undefined) {
    const response = await fetch(`${config.mpApiUrl}/_sandbox/info`).catch((cause: unknown) => {
      throw new StartError(`No sandbox answers at MP_API_URL ${config.mpApiUrl}`, { cause })
    })
    return { access: accessOf(config.mpApiUrl, config.mpAuthUrl, await response.json()) }
  }
  const { startSandbox } = await import('../../sandbox/server.ts')
  const sandbox = await startSandbox({
    port: config.sandboxPort,
    dataDir: join(config.dataDir, 'sandbox'),
    webhookUrl: `${localUrl}/webhooks`,
    redirectUris: [`${publicUrl}/oauth/callback`],
  }).catch((cause: unknown) => {
    throw new StartError(`The sandbox cannot start on port ${config.sandboxPort}`, { cause })
  })
  return { access: accessOf(sandbox.url, sandbox.url, sandbox.info), sandbox }
}

function accessOf(apiUrl: string, authUrl: string, info: unknown): ProviderAccess {
  const given = info as {
    client_id: string
    client_secret: string
    webhook_secrets: string[]
  }
  return {
    apiUrl,
    authUrl,
    clientId: given.client_id,
    clientSecret: given.client_secret,
    webhookSecrets: given.webhook_secrets,
  }
}
