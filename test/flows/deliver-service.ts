import { afterAll, afterEach, beforeAll } from 'vitest'
import { openTestDatabase } from '../support/database.ts'
import { createService, type Service, type ServiceDeps } from './deliver-support.ts'

/** One started service on one database for all tests of a file; each test takes a flow of its own. */
export function useService(deps: ServiceDeps = {}): () => Service {
  let service: Service | undefined
  beforeAll(async () => {
    service = createService(await openTestDatabase(), deps)
    await service.start()
  })
  afterEach(() => service?.closeAll())
  afterAll(async () => {
    await service?.stop({ timeoutMs: 100 })
    await service?.database.close()
  })
  return () => {
    if (!service) throw new Error('only inside tests')
    return service
  }
}
