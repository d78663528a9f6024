import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { shownReason } from '../../src/domain/flow-reasons.ts'
import { pauseByService, resumeByService } from '../../src/flows/control/pauses-and-limits.ts'
import { failureNotification } from '../../src/notifications/failure-message.ts'
import {
  findPauseFor,
  readSwitches,
  takeOverPauses,
} from '../../src/repositories/flows/flow-pauses-and-limits.ts'
import { openTestDatabase } from '../support/database.ts'

let database: Database

beforeAll(async () => {
  database = await openTestDatabase()
})
afterAll(() => database.close())

const at = new Date('2026-11-26T12:00:00Z')

/** As the version before pauses a flow: by a sentence alone. */
const pauseBefore = (flow: string, by: string, reason: string, code: string | null = null) =>
  sql`insert into flow_pause (flow, paused_at, paused_by, reason, code)
    values (${flow}, ${at}, ${by}, ${reason}, ${code})`.execute(database.db)

const pauseOf = async (flow: string) => {
  const state = (await readSwitches(database.db, [flow])).get(flow)
  return state?.paused ? state : undefined
}

test('a pause by the service has a code, and keeps its sentence for the version before', async () => {
  await database.transaction((trx) =>
    pauseByService(trx, ['limited'], { at, why: { code: 'RUN_LIMIT_REACHED' } }),
  )
  expect(await pauseOf('limited')).toMatchObject({
    ...{ pausedBy: 'service', reason: 'The flow reached its limit of runs' },
    why: { code: 'RUN_LIMIT_REACHED' },
  })
})

test('a pause that the version before sets beside this one has its code and ends with it', async () => {
  await pauseBefore('gone', 'service', 'definition missing')
  expect(await pauseOf('gone')).toMatchObject({ why: { code: 'DEFINITION_MISSING' } })
  const back = { at, pausedFor: 'DEFINITION_MISSING', why: { code: 'DEFINITION_BACK' } } as const
  expect(await database.transaction((trx) => resumeByService(trx, 'gone', back))).toBe(true)
  expect(await pauseOf('gone')).toBeUndefined()

  await pauseBefore('other shop', 'service', 'Another one: all 3 items', 'DESTINATION_CHANGED')
  expect(await findPauseFor(database.db, 'other shop', ['DESTINATION_CHANGED'])).toBeDefined()
})

test('a text of an operator gets no code, also when it replaces a pause with a code', async () => {
  await pauseBefore('by hand', 'ana', 'definition missing')
  expect(await pauseOf('by hand')).toMatchObject({ pausedBy: 'ana', why: null })

  await pauseBefore('taken over', 'service', 'definition missing')
  const pause = { at, by: 'ana', reason: 'stock-taking' }
  await database.transaction((trx) =>
    takeOverPauses(trx, ['taken over'], ['DEFINITION_MISSING'], pause),
  )
  expect(await pauseOf('taken over')).toMatchObject({ reason: 'stock-taking', why: null })

  // As the version before does, which has no code.
  await pauseBefore('taken over before', 'service', 'definition missing')
  await sql`update flow_pause set paused_by = 'ana', reason = 'stock-taking', code = null
    where flow = 'taken over before'`.execute(database.db)
  expect(await pauseOf('taken over before')).toMatchObject({ pausedBy: 'ana', why: null })
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
