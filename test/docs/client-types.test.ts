/** @module-tag long */

import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { clientTypes, clientTypesFile } from '../../checks/client-types.ts'
import { startTestService } from '../support/service.ts'

test('the types of the TypeScript client are those of /openapi.json (npm run client:types)', async () => {
  const service = await startTestService()
  const document = (await service.app.inject('/openapi.json')).json()
  await service.stop()
  expect(readFileSync(clientTypesFile, 'utf8')).toBe(await clientTypes(document))
})
