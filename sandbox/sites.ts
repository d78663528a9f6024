import type { Context } from './sandbox-context.ts'

/** A country of the provider: its ids in answers, and whether its currency has cents. */
export type Site = { country: string; code: string; currency: string; hasCents: boolean }

const sites: Record<string, Site> = {
  MLA: { country: 'AR', code: 'ARG', currency: 'ARS', hasCents: true },
  MLC: { country: 'CL', code: 'CHL', currency: 'CLP', hasCents: false },
  MCO: { country: 'CO', code: 'COL', currency: 'COP', hasCents: false },
  MPY: { country: 'PY', code: 'PRY', currency: 'PYG', hasCents: false },
  MLM: { country: 'MX', code: 'MEX', currency: 'MXN', hasCents: true },
}
const argentina = sites.MLA as Site

export const siteIds = Object.keys(sites)

export function siteIdOf(ctx: Context, userId: number): string {
  return ctx.state.tables.sellers.get(String(userId))?.siteId ?? 'MLA'
}

/** The country of an account; Argentina for an account of an old ledger. */
export function siteOf(ctx: Context, userId: number): Site {
  return sites[siteIdOf(ctx, userId)] ?? argentina
}
