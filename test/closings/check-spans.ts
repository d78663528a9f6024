import { expect } from 'vitest'
import { asClientName } from '../../src/domain/client-name.ts'
import type { ClosingRow } from '../../src/repositories/closings/closing-queries.ts'
import type { TestService } from '../support/service.ts'
import type { Till } from '../support/till.ts'

export async function listRows({ database }: TestService, till: Till): Promise<ClosingRow[]> {
  return database.db
    .selectFrom('closings')
    .selectAll()
    .where('client', '=', asClientName(till.client))
    .orderBy('place')
    .orderBy('from_at')
    .execute()
}

/** Each closing begins where the one before it ended, with the next number, and no closing is empty. */
export function expectContinuousSpans(rows: readonly ClosingRow[]): void {
  const places = Map.groupBy(rows, ({ place }) => place)
  for (const [place, closings] of places) {
    let end = closings[0]?.from_at
    for (const [at, { number, from_at, to_at }] of closings.entries()) {
      expect({ place, number, from_at }).toEqual({ place, number: at + 1, from_at: end })
      expect(to_at.getTime()).toBeGreaterThan(from_at.getTime())
      end = to_at
    }
  }
}
