import { gapOf, overlapWith } from '../../payments/closings/closing-span.ts'
import { signedError } from '../../payments/closings/closings.ts'

/** The errors of a closing that name another one or a time, for the API description. */
const closing = {
  id: 'b1d5f0c2-7c39-4d0e-8a4b-2f6e9d3c5a71',
  number: 41,
  state: 'agreed' as const,
  from_at: new Date('2026-03-12T03:00:00Z'),
  to_at: new Date('2026-03-13T03:00:00Z'),
}
const until = new Date('2026-03-13T15:00:00Z')

export const signed = signedError({ ...closing, state: 'signed' })

/** Of a time that does not follow the closings before it. */
export const spanErrors = [
  overlapWith(closing, until, closing.to_at),
  gapOf({ from: closing.to_at, to: until, businessDay: '2026-03-13' }),
  signed,
] as const
