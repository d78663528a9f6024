import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../../src/db/database.ts'

type Plan = { Plans?: Plan[]; [fact: string]: unknown }

/** The number of pages that a statement reads from memory or disk, with repetitions. */
export async function blocksRead(db: Db, statement: RawBuilder<unknown>): Promise<number> {
  const { rows } = await sql<{ 'QUERY PLAN': { Plan: Plan }[] }>`
    explain (analyze, buffers, format json) ${statement}`.execute(db)
  const plan = rows[0]?.['QUERY PLAN'][0]?.Plan
  return Number(plan?.['Shared Hit Blocks']) + Number(plan?.['Shared Read Blocks'])
}

/** The number of rows that a statement reads from tables and indexes, including discarded ones, for any plan. */
export async function rowsRead(db: Db, statement: RawBuilder<unknown>): Promise<number> {
  const { rows } = await sql<{ 'QUERY PLAN': { Plan: Plan }[] }>`
    explain (analyze, format json) ${statement}`.execute(db)
  return readOf(rows[0]?.['QUERY PLAN'][0]?.Plan as Plan)
}

function readOf(plan: Plan): number {
  const isScan = /Scan$/.test(String(plan['Node Type'])) && plan['Node Type'] !== 'CTE Scan'
  const fact = (name: string) => Number(plan[name] ?? 0) * Number(plan['Actual Loops'] ?? 1)
  const own = isScan
    ? fact('Actual Rows') +
      fact('Rows Removed by Filter') +
      fact('Rows Removed by Index Recheck') +
      fact('Rows Removed by Join Filter')
    : fact('Rows Removed by Join Filter')
  return (plan.Plans ?? []).reduce((sum, part) => sum + readOf(part), own)
}
