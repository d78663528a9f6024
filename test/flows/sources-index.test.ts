import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { SourceError } from '../../src/flows/types.ts'
import { flowOf, ids, openTestSource, readAll } from './sources-support.ts'

// Vitest finds more names in CommonJS packages than Node does, so the service might not start although tests pass.
test('Node itself can load all sources', async () => {
  const index = fileURLToPath(new URL('../../src/flows/sources/index.ts', import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, [
    '--input-type=module',
    '--eval',
    `console.log(typeof (await import(${JSON.stringify(index)})).openSource)`,
  ])
  expect(stdout.trim()).toBe('function')
})

test('a source of orders is opened with the payment side, and refused without it', async () => {
  const flow = flowOf({ type: 'payments.orders', client: 'acme' }, { item: { key: 'id' } })
  const asked: object[] = []
  const listOrderChanges = async (options: object) => {
    asked.push(options)
    return { rows: [{ id: 'a' }], next: 'p1' }
  }
  const { source } = openTestSource(flow, { payments: { listOrderChanges } })
  expect(ids(await readAll(source, 'p0'))).toEqual(['a'])
  expect(asked).toEqual([{ client: 'acme', after: 'p0', limit: 500 }])
  expect(() => openTestSource(flow)).toThrow(SourceError)
})

test('a source of settlements is opened with the payment side, and refused without it', async () => {
  const flow = flowOf({ type: 'payments.settlements' }, { item: { key: 'id' } })
  const listSettlementChanges = async () => ({ rows: [{ id: 'a' }], next: 'p1' })
  const { source } = openTestSource(flow, { payments: { listSettlementChanges } })
  expect(ids(await readAll(source, null))).toEqual(['a'])
  const orders = { listOrderChanges: listSettlementChanges }
  expect(() => openTestSource(flow, { payments: orders })).toThrow('settlements are not available')
})

test('a source of sql is opened without a connection; its errors are told at once', () => {
  const sql = (query: string) =>
    openTestSource(
      flowOf({ type: 'sql', driver: 'postgres', url: 'postgres://bob@127.0.0.1:1/x', query }),
    )
  expect(() => sql('select id from t')).not.toThrow()
  expect(() => sql('select id from t where a > :cursor')).toThrow(':cursor')
})
