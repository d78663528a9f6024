/**
 * Who may call what, as data: a route that is missing here fails the test, and so does one that is no more.
 * `request` is what is sent, `lets` the status of somebody who is let in: it shows that the guard stepped aside and
 * changes nothing, since the clients of this file have keys but no connection.
 */
export type Row = {
  access: 'public' | 'signed' | 'client' | 'admin' | 'metrics' | 'managers' | 'person'
  lets: number
  url?: string
  body?: object
  /** The query `client` of this public or admin route is a parameter of its own: it takes one name. */
  takesClient?: true
  /** What this public route answers to who comes from a page of the service; `lets` to others. */
  fromOwnPage?: number
  /** Of a public route: when a browser says that a page of elsewhere asks. */
  fromForeignPage?: number
  /** On this client route the administrator need not name a client. */
  allClients?: true
}
/** An id that nothing has. */
export const missingOrder = '3f8e1f0e-6c2d-4b5a-9a51-0c7c4f2f9d11'
export const table: Record<string, Row> = {
  'GET /health': { access: 'public', lets: 200 },
  'GET /openapi.json': { access: 'public', lets: 200 },
  'GET /guide': { access: 'public', lets: 200 },
  'GET /guide/guide.css': { access: 'public', lets: 200 },
  'GET /guide/search': { access: 'public', lets: 200 },
  'GET /guide/view/:language/:view': {
    access: 'public',
    lets: 302,
    url: '/guide/view/en/overview',
  },
  'GET /guide*': { access: 'public', lets: 404, url: '/guide/no-such-page' },
  'GET /docs': { access: 'public', lets: 200 },
  'GET /docs/': { access: 'public', lets: 200 },
  'GET /docs/json': { access: 'public', lets: 200 },
  'GET /docs/yaml': { access: 'public', lets: 200 },
  'GET /docs/static/index.html': { access: 'public', lets: 302 },
  'GET /docs/static/swagger-initializer.js': { access: 'public', lets: 200 },
  'GET /docs/static/swagger-ui-bundle.js': { access: 'public', lets: 200 },
  'GET /docs/static/swagger-ui-standalone-preset.js': { access: 'public', lets: 200 },
  'GET /docs/static/swagger-ui.css': { access: 'public', lets: 200 },
  'GET /docs/*': { access: 'public', lets: 404, url: '/docs/no-such-file' },
  'HEAD /docs/*': { access: 'public', lets: 404, url: '/docs/no-such-file' },
  'GET /': { access: 'public', lets: 404 },
  'GET /dashboard/': { access: 'public', lets: 200 },
  'GET /dashboard/index.html': { access: 'public', lets: 200 },
  'GET /dashboard/page.css': { access: 'public', lets: 200 },
  'GET /dashboard/page.js': { access: 'public', lets: 200 },
  'GET /vendor/uPlot.iife.min.js': { access: 'public', lets: 200 },
  'GET /dashboard/*': { access: 'public', lets: 404, url: '/dashboard/no-such-file' },
  'HEAD /dashboard/*': { access: 'public', lets: 404, url: '/dashboard/no-such-file' },
  // Files under /shared, which the list of routes shows so.
  'GET /*': { access: 'public', lets: 404, url: '/shared/no-such-file' },
  'HEAD /*': { access: 'public', lets: 404, url: '/shared/no-such-file' },
  'GET /oauth/login': {
    access: 'public',
    lets: 403,
    takesClient: true,
    url: '/oauth/login?client=retired',
  },
  'GET /oauth/invitation': {
    access: 'public',
    lets: 409,
    takesClient: true,
    url: '/oauth/invitation?client=retired&invitation=none',
  },
  'POST /oauth/invitation': {
    access: 'public',
    lets: 400,
    fromOwnPage: 403,
    body: { client: 'retired', invitation: 'none' },
  },
  'GET /oauth/callback': { access: 'public', lets: 400, url: '/oauth/callback?code=a&state=b' },
  'GET /oauth/validate': { access: 'public', lets: 200 },
  'GET /session': { access: 'public', lets: 200 },
  'POST /session': { access: 'public', lets: 401, body: { token: 'not-a-token' } },
  'DELETE /session': { access: 'public', lets: 200, fromForeignPage: 403 },
  'POST /account/invitation': {
    access: 'public',
    lets: 409,
    fromForeignPage: 403,
    body: { code: 'not-a-code', password: 'canary-long enough' },
  },
  'GET /account': { access: 'person', lets: 200 },
  'POST /account/password': { access: 'person', lets: 422, body: { current: 'x', password: 'x' } },
  'POST /account/totp': { access: 'person', lets: 200 },
  'POST /account/totp/confirm': { access: 'person', lets: 422, body: { code: 'x' } },
  'POST /account/totp/remove': { access: 'person', lets: 422, body: { password: '' } },
  'DELETE /account/sessions/:sessionId': {
    access: 'person',
    lets: 404,
    url: `/account/sessions/${missingOrder}`,
  },
  'GET /people': { access: 'managers', lets: 200, takesClient: true },
  'POST /people': { access: 'managers', lets: 422, body: { name: 'incomplete' } },
  'PATCH /people/:personId': {
    access: 'managers',
    lets: 404,
    url: `/people/${missingOrder}`,
    body: { role: 'viewer' },
  },
  'POST /people/:personId/reset': {
    access: 'managers',
    lets: 404,
    url: `/people/${missingOrder}/reset`,
  },
  'POST /people/:personId/revoke': {
    access: 'managers',
    lets: 404,
    url: `/people/${missingOrder}/revoke`,
  },
  'GET /people/:personId/sessions': {
    access: 'managers',
    lets: 404,
    url: `/people/${missingOrder}/sessions`,
  },
  'DELETE /people/:personId/sessions': {
    access: 'managers',
    lets: 404,
    url: `/people/${missingOrder}/sessions`,
  },
  'POST /webhooks': { access: 'signed', lets: 401, body: {} },

  'GET /oauth/status': { access: 'client', lets: 200 },
  'POST /oauth/refresh': { access: 'client', lets: 409 },
  'POST /oauth/logout': { access: 'client', lets: 409 },
  'GET /orders': { access: 'client', lets: 200 },
  'POST /orders': {
    access: 'client',
    lets: 404,
    body: { caja_id: 'NO-BOX', external_reference: 'T-1', amount: '1,00' },
  },
  'GET /orders/:orderId': { access: 'client', lets: 404, url: `/orders/${missingOrder}` },
  'GET /orders/:orderId/timeline': {
    access: 'client',
    lets: 404,
    url: `/orders/${missingOrder}/timeline`,
  },
  'POST /orders/:orderId/ask': {
    access: 'client',
    lets: 404,
    url: `/orders/${missingOrder}/ask`,
  },
  'POST /orders/:orderId/settle': {
    access: 'client',
    lets: 404,
    url: `/orders/${missingOrder}/settle`,
    body: { as: 'paid', reason: 'seen' },
  },
  'GET /events': { access: 'client', lets: 200, allClients: true },
  'GET /health/fleet': { access: 'client', lets: 200, allClients: true },
  'GET /health/fleet/changes': { access: 'client', lets: 200, allClients: true },
  'GET /statistics': { access: 'client', lets: 422 },
  'GET /overview': { access: 'client', lets: 422, allClients: true },
  'GET /sales': { access: 'client', lets: 422, allClients: true },
  'GET /sales-over-time': { access: 'client', lets: 422, allClients: true },
  'GET /sales/:storeExternalId': { access: 'client', lets: 422, url: '/sales/SUC-1' },
  'GET /settlements/files': { access: 'client', lets: 200 },
  'POST /settlements/files': { access: 'client', lets: 422, body: { content: 'none' } },
  'POST /settlements/fetches': { access: 'client', lets: 422, body: { report: 'incomplete' } },
  'GET /settlements/fetches/:fetchId': {
    access: 'client',
    lets: 404,
    url: `/settlements/fetches/${missingOrder}`,
  },
  'GET /settlements/net': { access: 'client', lets: 422 },
  'POST /orders/cancel': { access: 'client', lets: 404, body: { order_id: missingOrder } },
  'POST /orders/refund': { access: 'client', lets: 404, body: { order_id: missingOrder } },
  'GET /stores': { access: 'client', lets: 200 },
  'POST /stores': { access: 'client', lets: 422, body: { name: 'incomplete' } },
  'GET /stores/:storeExternalId': { access: 'client', lets: 404, url: '/stores/NONE' },
  'DELETE /stores/:storeExternalId': { access: 'client', lets: 404, url: '/stores/NONE' },
  'POST /stores/:storeExternalId/pos': {
    access: 'client',
    lets: 404,
    url: '/stores/NONE/pos',
    body: { pos: [{ name: 'Caja', external_id: 'C' }] },
  },
  'DELETE /stores/:storeExternalId/pos/:posExternalId': {
    access: 'client',
    lets: 404,
    url: '/stores/NONE/pos/NONE',
  },
  'GET /terminals': { access: 'client', lets: 409 },
  'PATCH /terminals/operating-mode': {
    access: 'client',
    lets: 404,
    body: { caja_id: 'NO-BOX', operating_mode: 'PDV' },
  },

  'GET /metrics': { access: 'metrics', lets: 200 },
  'GET /api-keys': { access: 'admin', lets: 200 },
  'POST /api-keys': { access: 'admin', lets: 409, body: { client: 'nobody' } },
  'POST /api-keys/revoke': { access: 'admin', lets: 404, body: { client: 'nobody' } },
  'GET /admin/charge-classes': { access: 'admin', lets: 200 },
  'PUT /admin/charge-classes': { access: 'admin', lets: 422, body: { name: 'incomplete' } },
  'GET /admin/clients': { access: 'admin', lets: 200 },
  'GET /admin/clients/:clientName': { access: 'admin', lets: 404, url: '/admin/clients/nobody' },
  'POST /admin/clients/:clientName/unpin': {
    access: 'admin',
    lets: 404,
    url: '/admin/clients/nobody/unpin',
  },
  'POST /admin/alerts/test': { access: 'admin', lets: 409 },
  'GET /admin/invitations': { access: 'admin', lets: 200 },
  'DELETE /admin/invitations/:invitationId': {
    access: 'admin',
    lets: 404,
    url: `/admin/invitations/${missingOrder}`,
  },
  'POST /admin/invitations': { access: 'admin', lets: 409, body: { client: 'acme' } },
  'POST /closings': {
    access: 'client',
    lets: 404,
    body: { caja_id: 'NO-BOX', business_day: '2026-01-05' },
  },
  'GET /closings': { access: 'client', lets: 200 },
  'GET /closings/:closingId': { access: 'client', lets: 404, url: `/closings/${missingOrder}` },
  'GET /closings/:closingId/csv': {
    access: 'client',
    lets: 404,
    url: `/closings/${missingOrder}/csv`,
  },
  'GET /closings/:closingId/print': {
    access: 'client',
    lets: 404,
    url: `/closings/${missingOrder}/print`,
  },
  'POST /closings/:closingId/count': {
    access: 'client',
    lets: 404,
    url: `/closings/${missingOrder}/count`,
    body: { declared: {} },
  },
  'POST /closings/:closingId/sign': {
    access: 'client',
    lets: 404,
    url: `/closings/${missingOrder}/sign`,
  },
  'POST /closings/:closingId/amendments': {
    access: 'client',
    lets: 404,
    url: `/closings/${missingOrder}/amendments`,
    body: { reason: 'late' },
  },
  'GET /chargebacks': { access: 'client', lets: 200, allClients: true },
  'GET /chargebacks/:chargebackId': {
    access: 'client',
    lets: 404,
    url: `/chargebacks/${missingOrder}`,
  },
  'GET /orphans': { access: 'client', lets: 200 },
  'POST /orphans/:orphanId/adopt': {
    access: 'client',
    lets: 404,
    url: `/orphans/${missingOrder}/adopt`,
    body: { reason: 'sold' },
  },
  'POST /orphans/:orphanId/refund': {
    access: 'client',
    lets: 404,
    url: `/orphans/${missingOrder}/refund`,
    body: { reason: 'twice' },
  },
  'POST /orphans/:orphanId/dismiss': {
    access: 'client',
    lets: 404,
    url: `/orphans/${missingOrder}/dismiss`,
    body: { reason: 'known' },
  },
  'PUT /stores/:storeExternalId/time-zone': {
    access: 'client',
    lets: 404,
    url: '/stores/NONE/time-zone',
    body: { time_zone: null },
  },
  'GET /admin/webhooks/logs': { access: 'admin', lets: 200, takesClient: true },
  'POST /admin/webhooks/:id/replay': {
    access: 'admin',
    lets: 404,
    url: `/admin/webhooks/${missingOrder}/replay`,
  },
  'GET /admin/activity': { access: 'managers', lets: 200, takesClient: true },
  'GET /admin/activity/verify': { access: 'admin', lets: 200 },
  'GET /admin/statistics': { access: 'admin', lets: 422 },
  'GET /admin/orders': { access: 'admin', lets: 200, takesClient: true },
  'POST /admin/orders/:idempotencyKey/simulate': {
    access: 'admin',
    lets: 404,
    takesClient: true,
    url: `/admin/orders/${missingOrder}/simulate`,
    body: { status: 'processed' },
  },
  'POST /admin/terminals/:terminalId/free': {
    access: 'admin',
    lets: 404,
    url: '/admin/terminals/SBX__1/free',
    body: { client: 'nobody', dry_run: false, reason: 'stuck' },
  },
  'POST /admin/orders/simulate/:idempotencyKey': {
    access: 'admin',
    lets: 404,
    takesClient: true,
    url: `/admin/orders/simulate/${missingOrder}`,
    body: { status: 'processed' },
  },
}
