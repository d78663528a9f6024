import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import { loadConfig } from '../../src/config.ts'
import type { Database } from '../../src/db/database.ts'
import { createFlowSide, type FlowSide, type FlowSideOptions } from '../../src/flow-side.ts'
import { createService, type Service } from '../../src/service.ts'

export type BothSides = { service: Service; side: FlowSide; close(): Promise<void> }

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
}): Promise<BothSides> {
  const { database, flowsDir, logger, sleep } = options
  const config = loadConfig({ PROVIDER: 'sandbox', FLOWS_DIR: flowsDir })
  const nowhere = 'http://127.0.0.1:9'
  const adminToken = randomBytes(32).toString('hex')
  const service = await createService({
    config,
    publicUrl: nowhere,
    adminToken,
    encryptionKeys: [{ id: 'k1', key: randomBytes(32) }],
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
    logger,
    env: options.env ?? {},
    ...(sleep && { sleep }),
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
