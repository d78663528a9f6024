import { onTestFinished } from 'vitest'
import {
  createProvider,
  type NewProviderOrder,
  type ProviderCallLog,
  ProviderError,
  type ProviderSettings,
} from '../../src/provider/provider.ts'

/** A provider client whose sleeps take no time, and its log. */
export function providerAt(apiUrl: string, settings: Partial<ProviderSettings> = {}) {
  const log: ProviderCallLog[] = []
  const provider = createProvider({
    apiUrl,
    authUrl: 'https://auth.example.com',
    clientId: '7654321098765432',
    clientSecret: 'app-secret-value',
    timeoutMs: 1_500,
    posApi: 'v2',
    sleep: () => Promise.resolve(),
    random: () => 1,
    observers: [(entry) => log.push(entry)],
    ...settings,
  })
  onTestFinished(() => provider.close())
  return { provider, log }
}

export const sale: NewProviderOrder = {
  externalReference: 'TCK-0001-00004711',
  amountCents: 123_450,
  terminalId: 'NEWLAND_N950__SBX0000001',
  description: 'Venta mostrador',
  ticketNumber: 'B-0001-00004711',
  printTicket: true,
  paymentMethod: 'credit_card',
  expirationMinutes: 16,
}

export const orderId = 'ORD01K8ZQ4M7N2P5R6S7T8V9W0X1Y'
export const paymentId = 'PAY01K8ZQ4M7P8Q9R0S1T2V3W4X5Y'

export async function providerFailure(promise: Promise<unknown>): Promise<ProviderError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (!(error instanceof ProviderError)) throw new Error(`expected a ProviderError, got ${error}`)
  return error
}
