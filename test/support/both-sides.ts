import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import { loadConfig } from '../../src/app/config.ts'
import { createFlowSide, type FlowSide, type FlowSideOptions } from '../../src/app/flow-side.ts'
import { createPaymentSide, type PaymentSide } from '../../src/app/payment-side.ts'
import type { Database } from '../../src/db/database.ts'
import type { EncryptionKey } from '../../src/domain/encryption.ts'
import { testSettings } from './test-settings.ts'

export type BothSides = { service: PaymentSide; side: FlowSide; close(): Promise<void> }

/**
 * Both sides as the process composes them, for work on flows alone: no provider can be reached. The flow side is not
 * started, and the database stays open at the end.
 */
export async function openBothSides(options: {
  database: Database
  flowsDir: string
  logger: Logger
  env?: Record<string, string>
  sleep?: FlowSideOptions['sleep']
  /** Milliseconds by which the clock of the flow side is wrong. */
  aheadMs?: () => number
  /** Of a service that has the database already. */
  encryptionKeys?: EncryptionKey[]
}): Promise<BothSides> {
  const { database, flowsDir, logger, sleep, aheadMs } = options
  const config = loadConfig({ ...testSettings, FLOWS_DIR: flowsDir })
  const nowhere = 'http://127.0.0.1:9'
  const adminToken = randomBytes(32).toString('hex')
  const service = await createPaymentSide({
    config,
    publicUrl: nowhere,
    adminToken,
    // The same for all processes on one database: each reads its audit key.
    encryptionKeys: options.encryptionKeys ?? [{ id: 'k1', key: Buffer.alloc(32, 1) }],
    providerAccess: {
      apiUrl: nowhere,
      authUrl: nowhere,
      clientId: '1',
      clientSecret: 'secret',
      webhookSecrets: [],
    },
    database,
    logger,
  })
  const side = await createFlowSide({
    config,
    publicUrl: nowhere,
    database,
    payments: service.deps,
    notifications: service.notifications,
    logger,
    env: options.env ?? {},
    ...(sleep && { sleep }),
    ...(aheadMs && { now: () => new Date(service.deps.now().getTime() + aheadMs()) }),
  })
  return {
    service,
    side,
    async close() {
      await side.app.close()
      await side.close()
      await service.app.close()
      await service.close()
    },
  }
}
