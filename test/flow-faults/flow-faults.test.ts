import { afterAll, expect, test } from 'vitest'
import {
  needsPostgres,
  openPostgresClone,
  type PostgresClone,
  postgresUrl,
} from '../support/database.ts'
import { runRound } from './round.ts'
import { isRare, stepsOf } from './steps.ts'

const title = postgresUrl ? '' : ` (${needsPostgres})`
let clone: PostgresClone | undefined

afterAll(() => clone?.database.close())

test.skipIf(!postgresUrl)(
  `source and target agree after repeated kills; deliveries keep their order and their keys${title}`,
  { tags: ['long'] },
  async () => {
    clone = await openPostgresClone(String(postgresUrl))
    const { url: databaseUrl, database } = clone
    const place = { databaseUrl, database }
    const result = await runRound({ place, seed: 11, flows: 5, kills: 3, restWithinMs: 90_000 })
    expect(result.violations).toEqual([])
    expect(result).toMatchObject({ runs: 5, kills: 3 })
    expect(result.deliveries).toBeGreaterThan(0)
    // Steps are recognised by the text of their statements: a changed text must fail here.
    const usual = stepsOf(false).filter((step) => !isRare({ step }))
    expect(usual.filter((step) => !result.passed.has(step))).toEqual([])
  },
)
