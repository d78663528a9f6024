import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { flowOf, ids, noFeeds, openTestSource, readAll } from './sources-support.ts'

// Vitest finds more names in CommonJS packages than Node does, so the service might not start although tests pass.
test('Node can load all sources', { tags: ['long'] }, async () => {
  const index = fileURLToPath(new URL('../../src/flows/sources/open-source.ts', import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, [
    '--input-type=module',
    '--eval',
    `console.log(typeof (await import(${JSON.stringify(index)})).openSource)`,
  ])
  expect(stdout.trim()).toBe('function')
})

test('a source of orders reads the orders of the payment side', async () => {
  const flow = flowOf({ type: 'payments.orders', client: 'acme' }, { item: { key: 'id' } })
  const asked: object[] = []
  const orders = async (options: object) => {
    asked.push(options)
    return { rows: [{ id: 'a' }], next: 'p1' }
  }
  const { source } = openTestSource(flow, { payments: { ...noFeeds, 'payments.orders': orders } })
  expect(ids(await readAll(source, 'p0'))).toEqual(['a'])
  expect(asked).toEqual([{ client: 'acme', after: 'p0', limit: 500 }])
})

test('a source of sql is opened without a connection', () => {
  const query = 'select id from t'
  const url = 'postgres://bob@127.0.0.1:1/x'
  const flow = flowOf({ type: 'sql', driver: 'postgres', url, query })
  expect(() => openTestSource(flow)).not.toThrow()
})
