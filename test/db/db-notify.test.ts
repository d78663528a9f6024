import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Database, notify } from '../../src/db/database.ts'
import { eventually } from '../support/eventually.ts'
import { engines } from './engines.ts'

describe.each(engines)('on $title', ({ skip, open }) => {
  let database: Database
  beforeAll(async () => {
    if (!skip) database = await open()
  })
  afterAll(() => database?.close())

  const send = (channel: string, payload: string) =>
    database.transaction((trx) => notify(trx, channel, payload))

  test.skipIf(skip)(
    'payloads arrive in order at every listener of their channel, capitals kept',
    async () => {
      const received: string[] = []
      const ends = await Promise.all([
        database.listen('Orders', (payload) => received.push(`a${payload}`)),
        database.listen('Orders', (payload) => received.push(`b${payload}`)),
        database.listen('orders', (payload) => received.push(`wrong${payload}`)),
      ])
      await send('Orders', '1')
      await send('Orders', '2')
      await eventually(() => expect(received).toEqual(['a1', 'b1', 'a2', 'b2']))
      for (const end of ends) await end()
    },
  )

  test.skipIf(skip)('nothing is received before the commit, nor after a rollback', async () => {
    const received: string[] = []
    const end = await database.listen('quiet', (payload) => received.push(payload))
    const failed = database.transaction(async (trx) => {
      await notify(trx, 'quiet', 'rolled back')
      throw new Error('on purpose')
    })
    await expect(failed).rejects.toThrow('on purpose')
    await database.transaction(async (trx) => {
      await notify(trx, 'quiet', 'committed')
      await sleep(20)
      expect(received).toEqual([])
    })
    await eventually(() => expect(received).toEqual(['committed']))
    await end()
  })

  test.skipIf(skip)(
    'a listener that has ended receives nothing, and another of the channel still does',
    async () => {
      const received: string[] = []
      const end = await database.listen('Shared', () => received.push('ended'))
      const endOther = await database.listen('Shared', () => received.push('other'))
      await end()
      await send('Shared', '')
      await eventually(() => expect(received).toEqual(['other']))
      await endOther()
      await send('Shared', '')
      await sleep(50)
      expect(received).toEqual(['other'])
    },
  )

  test.skipIf(skip)(
    'a listener that throws affects neither another one nor the process',
    async () => {
      const received: string[] = []
      const ends = [
        await database.listen('fragile', () => {
          throw new Error('on purpose')
        }),
        await database.listen('fragile', (payload) => received.push(payload)),
      ]
      await send('fragile', 'x')
      await eventually(() => expect(received).toEqual(['x']))
      for (const end of ends) await end()
    },
  )

  test.skipIf(skip)('a listener may use the database', async () => {
    const rows = Promise.withResolvers<unknown>()
    const end = await database.listen('use', () => {
      database
        .transaction((trx) => trx.selectFrom('leases').selectAll().execute())
        .then(rows.resolve, rows.reject)
    })
    await send('use', '')
    expect(await rows.promise).toEqual([])
    await end()
  })
})
