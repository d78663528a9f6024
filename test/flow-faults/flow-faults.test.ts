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
  `flows that are killed again and again bring source and target to agree, in order and under one key${title}`,
  async () => {
    clone = await openPostgresClone(String(postgresUrl))
    const { url: databaseUrl, database } = clone
    const place = { databaseUrl, database }
    const result = await runRound({ place, seed: 11, flows: 5, kills: 3, restWithinMs: 90_000 })
    expect(result.violations).toEqual([])
    expect(result).toMatchObject({ runs: 5, kills: 3 })
    expect(result.deliveries).toBeGreaterThan(0)
    // What is recognised by its text changes with the text.
    const usual = stepsOf(false).filter((step) => !isRare({ step }))
    expect(usual.filter((step) => !result.passed.has(step))).toEqual([])
  },
  180_000,
)
