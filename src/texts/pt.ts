import { cashier } from './pt/cashier.ts'
import { closing } from './pt/closing.ts'
import { connect } from './pt/connect.ts'
import { fleet } from './pt/fleet.ts'

/** The texts in Portuguese, for those who have no English or Spanish: cashiers, and owners who connect their shop. */
export const pt = {
  ...cashier,
  ...closing,
  ...connect,
  ...fleet,
} as const
