/** Named users of the pages, what each role may do, and what each route needs. What is not listed here is refused. */

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

type Permission =
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
 * How a person of some stores is kept to them. `list`: the handler shows what is of these stores alone. `anything`: nothing of a
 * store is in it. The others name the thing of the request whose store is looked up. A route without it is closed to such a person.
 */
export type Confinement =
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

export type RouteRule = { needs: Permission; within?: Confinement }

/** Every route of the payment API that asks who calls. */
const paymentRoutes: Readonly<Record<string, RouteRule>> = {
  'GET /account': { needs: 'account', within: 'anything' },
  'POST /account/password': { needs: 'account', within: 'anything' },
  'POST /account/totp': { needs: 'account', within: 'anything' },
  'POST /account/totp/confirm': { needs: 'account', within: 'anything' },
  'POST /account/totp/remove': { needs: 'account', within: 'anything' },
  'DELETE /account/sessions/:sessionId': { needs: 'account', within: 'anything' },

  'GET /people': { needs: 'manage_people' },
  'POST /people': { needs: 'manage_people' },
  'PATCH /people/:personId': { needs: 'manage_people' },
  'POST /people/:personId/reset': { needs: 'manage_people' },
  'POST /people/:personId/revoke': { needs: 'manage_people' },
  'GET /people/:personId/sessions': { needs: 'manage_people' },
  'DELETE /people/:personId/sessions': { needs: 'manage_people' },

  'GET /oauth/status': { needs: 'see', within: 'anything' },
  'POST /oauth/refresh': { needs: 'connect' },
  'POST /oauth/logout': { needs: 'connect' },

  'GET /orders': { needs: 'see', within: 'list' },
  'POST /orders': { needs: 'move_money', within: 'box' },
  'GET /orders/:orderId': { needs: 'see', within: 'order_or_adopted' },
  'GET /orders/:orderId/timeline': { needs: 'see', within: 'order' },
  'POST /orders/:orderId/ask': { needs: 'move_money', within: 'order' },
  'POST /orders/:orderId/settle': { needs: 'move_money', within: 'order' },
  'POST /orders/cancel': { needs: 'move_money', within: 'order_or_adopted' },
  'POST /orders/refund': { needs: 'move_money', within: 'order_or_adopted' },
  'GET /events': { needs: 'see', within: 'list' },
  'GET /health/fleet': { needs: 'see', within: 'list' },
  'GET /health/fleet/changes': { needs: 'see', within: 'list' },
  'GET /statistics': { needs: 'see', within: 'list' },
  'GET /overview': { needs: 'see', within: 'list' },
  'GET /sales': { needs: 'see', within: 'list' },
  'GET /sales-over-time': { needs: 'see', within: 'list' },
  'GET /sales/:storeExternalId': { needs: 'see', within: 'store' },

  'GET /stores': { needs: 'see', within: 'list' },
  'GET /stores/:storeExternalId': { needs: 'see', within: 'store' },
  'POST /stores': { needs: 'set_up' },
  'DELETE /stores/:storeExternalId': { needs: 'set_up' },
  'POST /stores/:storeExternalId/pos': { needs: 'set_up' },
  'DELETE /stores/:storeExternalId/pos/:posExternalId': { needs: 'set_up' },
  'PUT /stores/:storeExternalId/time-zone': { needs: 'set_up' },
  'GET /terminals': { needs: 'see', within: 'list' },
  'PATCH /terminals/operating-mode': { needs: 'switch_terminals', within: 'box' },

  'GET /closings': { needs: 'see', within: 'list' },
  'POST /closings': { needs: 'close_days', within: 'box' },
  'GET /closings/:closingId': { needs: 'see', within: 'closing' },
  'GET /closings/:closingId/csv': { needs: 'see', within: 'closing' },
  'GET /closings/:closingId/print': { needs: 'see', within: 'closing' },
  'POST /closings/:closingId/count': { needs: 'close_days', within: 'closing' },
  'POST /closings/:closingId/sign': { needs: 'close_days', within: 'closing' },
  'POST /closings/:closingId/amendments': { needs: 'close_days', within: 'closing' },
  'GET /orphans': { needs: 'see', within: 'list' },
  'POST /orphans/:orphanId/adopt': { needs: 'move_money', within: 'orphan' },
  'POST /orphans/:orphanId/refund': { needs: 'move_money', within: 'orphan' },
  'POST /orphans/:orphanId/dismiss': { needs: 'move_money', within: 'orphan' },
  'GET /chargebacks': { needs: 'see', within: 'list' },
  'GET /chargebacks/:chargebackId': { needs: 'see', within: 'chargeback' },
  'GET /settlements/files': { needs: 'see' },
  'POST /settlements/files': { needs: 'set_up' },
  'POST /settlements/fetches': { needs: 'set_up' },
  'GET /settlements/fetches/:fetchId': { needs: 'see' },
  'GET /settlements/net': { needs: 'see' },

  'GET /admin/activity': { needs: 'see_activity' },
  'GET /admin/activity/verify': { needs: 'administer' },
  'GET /metrics': { needs: 'administer' },
  'GET /api-keys': { needs: 'administer' },
  'POST /api-keys': { needs: 'administer' },
  'POST /api-keys/revoke': { needs: 'administer' },
  'GET /admin/charge-classes': { needs: 'administer' },
  'PUT /admin/charge-classes': { needs: 'administer' },
  'GET /admin/clients': { needs: 'administer' },
  'GET /admin/clients/:clientName': { needs: 'administer' },
  'POST /admin/clients/:clientName/unpin': { needs: 'administer' },
  'POST /admin/alerts/test': { needs: 'administer' },
  'GET /admin/invitations': { needs: 'administer' },
  'POST /admin/invitations': { needs: 'administer' },
  'DELETE /admin/invitations/:invitationId': { needs: 'administer' },
  'GET /admin/webhooks/logs': { needs: 'administer' },
  'POST /admin/webhooks/:id/replay': { needs: 'administer' },
  'GET /admin/statistics': { needs: 'administer' },
  'GET /admin/orders': { needs: 'administer' },
  'POST /admin/orders/:idempotencyKey/simulate': { needs: 'administer' },
  'POST /admin/orders/simulate/:idempotencyKey': { needs: 'administer' },
  'POST /admin/terminals/:terminalId/free': { needs: 'administer' },
}

/** The rule of a route of the payment API, as Fastify names it; undefined for one that no person may call. */
export function ruleOfRoute(method: string, path: string): RouteRule | undefined {
  return paymentRoutes[`${method === 'HEAD' ? 'GET' : method} ${path}`]
}

/** Whether the person may call a route of the payment API. */
export function mayCall(person: Person, rule: RouteRule | undefined): rule is RouteRule {
  if (!rule || !permissionsOf(person).includes(rule.needs)) return false
  return person.stores === null || rule.within !== undefined
}

/** Whether the person may call a route of the control API with this method. */
export function mayCallControl(person: Person, method: string): boolean {
  const isRead = method === 'GET' || method === 'HEAD'
  return permissionsOf(person).includes(isRead ? 'see_flows' : 'run_flows')
}

/** Whether the person may read what the control API shows. */
export function maySeeFlows(person: Person): boolean {
  return permissionsOf(person).includes('see_flows')
}

/** The one form in which names of people are compared. */
export function nameKey(name: string): string {
  return name.normalize('NFKC').trim().toLowerCase()
}
