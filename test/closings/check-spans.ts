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

/** Each closing begins where the one before it ended, the numbers are 1, 2, 3 in some order, and no closing is empty. */
export function expectContinuousSpans(rows: readonly ClosingRow[]): void {
  const places = Map.groupBy(rows, ({ place }) => place)
  for (const [place, closings] of places) {
    let end = closings[0]?.from_at
    const numbers = closings.map(({ number }) => number).toSorted((one, other) => one - other)
    expect(numbers).toEqual(closings.map((_, at) => at + 1))
    for (const { from_at, to_at } of closings) {
      expect({ place, from_at }).toEqual({ place, from_at: end })
      expect(to_at.getTime()).toBeGreaterThan(from_at.getTime())
      end = to_at
    }
  }
}
