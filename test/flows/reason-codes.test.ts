import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { pauseByService } from '../../src/flows/poll/pauses-and-limits.ts'
import { failureNotification } from '../../src/notifications/failure-message.ts'
import {
  readSwitches,
  takeOverPauses,
} from '../../src/repositories/flows/flow-pauses-and-limits.ts'
import { shownReason } from '../../src/texts/reason.ts'
import { openTestDatabase } from '../support/database.ts'

let database: Database

beforeAll(async () => {
  database = await openTestDatabase()
})
afterAll(() => database.close())

const at = new Date('2026-11-26T12:00:00Z')

const pauseOf = async (flow: string) => {
  const state = (await readSwitches(database.db, [flow])).get(flow)
  return state?.paused ? state : undefined
}

test('a pause by the service has a code', async () => {
  await database.transaction((trx) =>
    pauseByService(trx, ['limited'], { at, why: { code: 'RUN_LIMIT_REACHED' } }),
  )
  expect(await pauseOf('limited')).toMatchObject({
    ...{ pausedBy: 'service', reason: 'The flow reached its limit of runs' },
    why: { code: 'RUN_LIMIT_REACHED' },
  })
})

test('a text of an operator replaces a pause of the service, and its code', async () => {
  await database.transaction((trx) =>
    pauseByService(trx, ['taken over'], { at, why: { code: 'DEFINITION_MISSING' } }),
  )
  const pause = { at, by: 'ana', reason: 'stock-taking' }
  await database.transaction((trx) =>
    takeOverPauses(trx, ['taken over'], ['DEFINITION_MISSING'], pause),
  )
  expect(await pauseOf('taken over')).toMatchObject({ reason: 'stock-taking', why: null })
})

test('the API makes the sentence in the language of the reader', () => {
  const why = { code: 'HTTP_REDIRECT', data: { status: 301 } }
  expect(shownReason(why, 'es')).toEqual({
    ...why,
    message: 'HTTP 301 (no se siguen los redireccionamientos)',
  })
  expect(shownReason(why, 'en')?.message).toBe('HTTP 301 (redirects are not followed)')
  expect(shownReason({ code: 'OF_TOMORROW' }, 'en')).toEqual({
    ...{ code: 'OF_TOMORROW', data: {}, message: null },
  })
  expect(shownReason(null, 'es')).toBeNull()
})

test('a mail shows the reason in its language, and only the sentence of a reason without a code', () => {
  const common = { attempts: 1, at: at.toISOString() }
  const { text } = failureNotification({
    ...{ kind: 'deliveries_failed', id: 'm1', at: at.toISOString(), flow: 'f' },
    ...{ destination: 'web', failed: 2, open: 2, since: at.toISOString() },
    examples: [
      {
        pk: 'A',
        error: 'no answer within 5 s',
        why: { code: 'NO_ANSWER', data: { seconds: 5 } },
        ...common,
      },
      { pk: 'B', error: 'no answer within 5 s', ...common },
    ],
  })
  expect(text('es').examples.map(({ error }) => error)).toEqual([
    'no hubo respuesta en 5 s',
    'no answer within 5 s',
  ])
})
