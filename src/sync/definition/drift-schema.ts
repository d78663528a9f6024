import { z } from 'zod'
import { whole } from './fields.ts'

const whenFound = (what: string) => z.enum(['hold', 'ignore']).prefault('hold').describe(what)

/** What of a source that does not look as it did holds the flow; see poll/drift.ts. */
export const drift = () =>
  z
    .strictObject({
      columns: whenFound('a field that all records had is in none of them any more'),
      types: whenFound('the values of a field are of another type, such as text for numbers'),
      changed: z
        .strictObject({
          maxPercent: z.number().gt(0).max(100).prefault(50),
          minItems: whole(0, 1_000_000_000).prefault(100),
        })
        .optional()
        .describe(
          'more known items than minItems, and than this share of all, changed at once; without it any number may change',
        ),
    })
    .prefault({})
