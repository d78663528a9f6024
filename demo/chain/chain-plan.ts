/** A chain as the demo fills it: the same on every run, but for the times, which end now. */
export const chain = {
  client: 'La Cadena',
  stores: 10,
  boxesPerStore: 30,
  salesYesterday: 5_000,
  salesToday: 4_000,
  flows: 50,
} as const

const neighbourhoods = [
  'Almagro',
  'Belgrano',
  'Caballito',
  'Flores',
  'Liniers',
  'Núñez',
  'Palermo',
  'Recoleta',
  'San Telmo',
  'Villa Crespo',
]

export type PlannedStore = { id: string; name: string; boxes: { id: string; name: string }[] }

/** Stores `SUC-1` to `SUC-10` with boxes that count on from store to store: `CAJA-1` to `CAJA-300`. */
export function planStores(): PlannedStore[] {
  return Array.from({ length: chain.stores }, (_, store) => ({
    id: `SUC-${store + 1}`,
    name: `Sucursal ${neighbourhoods[store]}`,
    boxes: Array.from({ length: chain.boxesPerStore }, (_, at) => {
      const number = store * chain.boxesPerStore + at + 1
      return { id: `CAJA-${number}`, name: `Caja ${number}` }
    }),
  }))
}

/** Boxes that cannot charge, and what keeps them from it. */
export const problemBoxes = {
  standalone: 'CAJA-17',
  withoutTerminal: 'CAJA-42',
  busy: 'CAJA-133',
} as const

/** The sales of this store are real orders, which can be refunded; no day of it is closed. */
export const storeOfRealSales = `SUC-${chain.stores}`
/** Closed and signed yesterday; of today only the first half is closed. */
export const closedStores = ['SUC-1', 'SUC-2', 'SUC-3'] as const
export const halfClosedStores = ['SUC-1', 'SUC-2'] as const

/** Two charges that were typed into a terminal, and one sale that Mercado Pago does not list: all of today. */
export const typedCharges = [
  { box: 'CAJA-70', cents: 1_250_000 },
  { box: 'CAJA-200', cents: 899_900 },
] as const
/** Of the numbers of the sales of today. */
export const unlistedSale = 2_346

const hourMs = 3_600_000
/** Buenos Aires has no summer time. */
const offsetMs = 3 * hourMs

/** The days of the chain: yesterday from 9 to 21 o'clock, and today from 9 o'clock, or from midnight before 10, until a minute ago. */
export function daysOf(now: Date): {
  yesterday: { day: string; from: Date; to: Date }
  today: { day: string; from: Date; to: Date }
} {
  const dayMs = 24 * hourMs
  const midnight = Math.floor((now.getTime() - offsetMs) / dayMs) * dayMs + offsetMs
  const dayOf = (at: number) => new Date(at - offsetMs).toISOString().slice(0, 10)
  const opens = now.getTime() - midnight > 10 * hourMs ? 9 * hourMs : 0
  const to = Math.max(midnight + 1_000, now.getTime() - 60_000)
  return {
    yesterday: {
      day: dayOf(midnight - dayMs),
      from: new Date(midnight - dayMs + 9 * hourMs),
      to: new Date(midnight - dayMs + 21 * hourMs),
    },
    today: { day: dayOf(midnight), from: new Date(midnight + opens), to: new Date(to) },
  }
}
