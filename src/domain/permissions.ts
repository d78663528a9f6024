/** Named users of the pages, and what each role may do. What a route needs stands on the route (`needs`, `within`). */

export const roles = ['administrator', 'supervisor', 'viewer', 'flow_operator'] as const
export type Role = (typeof roles)[number]

/** A person who is signed in. */
export type Person = {
  id: string
  name: string
  role: Role
  /** Null: of the whole service. */
  client: string | null
  /** Ids of the ERP of the only stores that the person sees; null: no such limit. */
  stores: readonly string[] | null
}

/** The stores, by the ERP's ids, whose things a request may show; undefined for no limit. Lists of client routes carry it. */
export type StoresSeen = readonly string[] | undefined

/** Who may have which role: one of a client, one of the whole service, or both. */
export const placesOfRole: Readonly<Record<Role, readonly ('client' | 'service')[]>> = {
  administrator: ['client', 'service'],
  supervisor: ['client'],
  viewer: ['client', 'service'],
  flow_operator: ['service'],
}

export type Permission =
  /** The person's own password, codes and sessions. */
  | 'account'
  /** Sales, boxes, closings. */
  | 'see'
  /** Charge, cancel, refund, and settle what is in doubt. */
  | 'move_money'
  | 'close_days'
  | 'switch_terminals'
  /** Stores, boxes, and reports of the provider. */
  | 'set_up'
  /** The connection to the provider's account. */
  | 'connect'
  | 'manage_people'
  | 'see_activity'
  /** What belongs to no client: keys, clients, webhooks, all that only the administrator does. */
  | 'administer'
  /** Everything that the control API only shows. */
  | 'see_flows'
  /** Everything that it changes or has read from a source. */
  | 'run_flows'

const permissionsOfRole: Readonly<Record<Role, readonly Permission[]>> = {
  administrator: [
    'account',
    'see',
    'move_money',
    'close_days',
    'switch_terminals',
    'set_up',
    'connect',
    'manage_people',
    'see_activity',
    'administer',
    'see_flows',
    'run_flows',
  ],
  supervisor: ['account', 'see', 'move_money', 'close_days', 'switch_terminals'],
  viewer: ['account', 'see', 'see_flows'],
  flow_operator: ['account', 'see_flows', 'run_flows'],
}

/** Permissions for what belongs to no client: a person of a client never has them. */
const ofServiceOnly: ReadonlySet<Permission> = new Set(['administer', 'see_flows', 'run_flows'])
/** What the person may do. A viewer of the whole service reads flows: sales are of clients. */
export function permissionsOf({ role, client }: Pick<Person, 'role' | 'client'>): Permission[] {
  return permissionsOfRole[role].filter((one) =>
    client === null ? !(role === 'viewer' && one === 'see') : !ofServiceOnly.has(one),
  )
}

/**
 * How a person of some stores is kept to them. `all_stores`: the route is closed to such a person. `list`: the handler shows what is
 * of these stores alone. `anything`: nothing of a store is in it. The others name the thing of the request whose store is looked up.
 */
export type Confinement =
  | 'all_stores'
  | 'list'
  | 'anything'
  | 'order'
  /** The same where the handler also takes an order that only the provider has: it is adopted before the look-up. */
  | 'order_or_adopted'
  | 'closing'
  | 'orphan'
  | 'chargeback'
  | 'box'
  | 'store'

/** Whether the person may call a route that needs this, and keeps people of some stores to them so. */
export function mayCall(
  person: Person,
  { needs, within }: { needs?: Permission; within?: Confinement },
): boolean {
  if (needs === undefined || !permissionsOf(person).includes(needs)) return false
  return person.stores === null || (within !== undefined && within !== 'all_stores')
}

/** Whether the person may read what the control API shows. */
export function maySeeFlows(person: Person): boolean {
  return permissionsOf(person).includes('see_flows')
}

/** The one form in which names of people are compared. */
export function nameKey(name: string): string {
  return name.normalize('NFKC').trim().toLowerCase()
}
