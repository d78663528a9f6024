import type { Mistakes } from './mistakes.ts'

/** Who may call, how often, and for whom. */
export const access: readonly Mistakes[] = [
  {
    file: 'src/routes/authentication.ts',
    tests: [['test/checks/comparisons.test.ts']],
    made: {
      'the admin token is compared by ===': [
        'if (isAdminToken(token)) return',
        'if (token === options.adminToken) return',
      ],
    },
  },
  {
    file: 'src/flows/routes/control-authentication.ts',
    tests: [['test/checks/comparisons.test.ts']],
    made: {
      'the SYNC_TOKEN is compared by ===': [
        'sameSecret(token, access.syncToken)',
        'token === access.syncToken',
      ],
    },
  },
  {
    file: 'src/routes/webhooks/webhook-routes.ts',
    tests: [['test/payment/webhooks.test.ts', 'the body decides nothing']],
    made: {
      'the order of a webhook comes from its body': [
        `          ...signedParts(request),
          topic`,
        `          ...signedParts(request),
          dataId: (request.body as { data?: { id?: string } } | undefined)?.data?.id ?? signedParts(request).dataId,
          topic`,
      ],
    },
  },
  {
    file: 'src/payments/webhooks/webhook-inbox.ts',
    tests: [['test/payment/webhooks.test.ts', 'the same delivery again']],
    made: {
      'what is a duplicate comes from the body': [
        `    single(delivery.xRequestId) ?? '',
    verified`,
        `    JSON.stringify(delivery.body) ?? '',
    verified`,
      ],
    },
  },
  {
    file: 'src/provider/webhook-signature.ts',
    tests: [['test/payment/webhooks.test.ts', 'missing, forged']],
    made: {
      'a captured webhook is good for ever': ['if (ageMs > oldestMs || ', 'if ('],
    },
  },
  {
    file: 'src/payments/webhooks/webhook-inbox.ts',
    tests: [['test/payment/webhooks.test.ts', 'a flood of forged']],
    made: {
      'refused webhooks are all kept': ['if (window.count > rejectedPerMinute) return', ''],
    },
  },
  {
    file: 'src/http/access-classes.ts',
    tests: [['test/http/requests.test.ts']],
    made: {
      'a route without an access class is served': [
        'if (open.length > 0) {',
        'if (open.length > 1_000) {',
      ],
    },
  },
  {
    file: 'src/routes/authentication.ts',
    tests: [['test/payment/access.test.ts', 'answers each caller as its access class demands']],
    made: {
      'a client key acts for whoever is named': [
        `    if (named !== undefined && named !== principal.client) throw new AppError('FORBIDDEN')
    return principal.client`,
        '    return named === undefined ? principal.client : asClientName(named)',
      ],
      'a client key is let in to the administrator’s routes': [
        "return type === 'admin' || (access",
        "return type === 'admin' || type === 'client' || (access",
      ],
    },
  },
  {
    file: 'src/repositories/api-keys/api-key-queries.ts',
    tests: [['test/payment/access.test.ts', 'answers each caller as its access class demands']],
    made: {
      'a revoked key is found': [
        'where key_hash = :key_hash and active',
        'where key_hash = :key_hash',
      ],
    },
  },
  {
    file: 'src/repositories/orders/order-queries.ts',
    tests: [
      ['test/payment/status-check-notes.test.ts', 'a key reads orders of its own client only'],
    ],
    made: {
      'a revoked key is found together with its order': [
        'where k.key_hash = :key_hash and k.active',
        'where k.key_hash = :key_hash',
      ],
      'a key finds the orders of other clients': [
        'left join orders on orders.client = k.client and ',
        'left join orders on ',
      ],
    },
  },
  {
    file: 'src/routes/authentication.ts',
    tests: [['test/payment/rate-limits.test.ts', 'an address has a limit of failed attempts']],
    made: {
      'a failed try is not counted': [
        `      await countTry(request)
      throw`,
        '      throw',
      ],
    },
  },
  {
    file: 'src/repositories/session/sessions.ts',
    tests: [['test/payment/session.test.ts', 'a session ends with its key']],
    made: {
      'a session outlives its key': [
        "eb('key.active', '=', true)",
        "eb('key.active', 'is not', null)",
      ],
    },
  },
  {
    file: 'src/routes/session/browser-sessions.ts',
    tests: [['test/payment/session.test.ts', 'end with a changed ADMIN_TOKEN']],
    made: {
      'a session outlives the ADMIN_TOKEN that began it': [
        'isOfAdmin(open, secret, adminToken)',
        'open.adminProof !== null',
      ],
    },
  },
  {
    file: 'src/payments/people/sign-in-session.ts',
    tests: [['test/payment/session.test.ts', 'signing out ends']],
    made: {
      'a session outlives its end': ['if (!(await deleteSession(trx, id))) return', ''],
    },
  },
  {
    file: 'src/routes/session/browser-sessions.ts',
    tests: [['test/payment/session.test.ts']],
    made: {
      'a session acts for any page': [
        'if (!isFromOwnPage(headers, { ownOrigin, isRead })) return false',
        '',
      ],
    },
  },
  {
    file: 'src/http/auth-failure-limit.ts',
    tests: [['test/http/auth-failure-limit.test.ts']],
    made: {
      'one try more than the limit': ['max: perMinute,', 'max: perMinute + 1,'],
      'each address of an IPv6 /64 is counted alone': [
        'addressGroup(callerAddress(request))',
        'callerAddress(request)',
      ],
    },
  },
  {
    file: 'src/routes/authentication.ts',
    tests: [['test/payment/caller-address.test.ts']],
    made: {
      'the audit log believes X-Forwarded-For': [
        'request.arrivedFrom = callerAddress(request)',
        'request.arrivedFrom = String(request.headers["x-forwarded-for"] ?? request.ip)',
      ],
    },
  },
  {
    file: 'src/http/create-server.ts',
    tests: [['test/payment/caller-address.test.ts']],
    made: {
      'everybody’s X-Forwarded-For is believed': [
        'trustProxy: trustProxy.length > 0 ? [...trustProxy] : false,',
        'trustProxy: trustProxy.length > 0 ? [...trustProxy] : true,',
      ],
    },
  },
  {
    file: 'src/http/connections.ts',
    tests: [['test/http/connections.test.ts']],
    made: {
      'no limit of the connections': ['if (sockets.size >= limit) {', 'if (sockets.size >= 1e9) {'],
      'a connection with a running request is closed for a new one': [
        `    idle.delete(socket)
    reply.raw`,
        `    reply.raw`,
      ],
    },
  },
  {
    file: 'src/http/create-server.ts',
    tests: [['test/http/connections.test.ts']],
    made: {
      'the listeners have no cap unless they are told': [
        'connections: connectionLimit = connectionsByDefault,',
        'connections: connectionLimit = 1e9,',
      ],
    },
  },
  {
    file: 'src/http/create-server.ts',
    tests: [['test/http/slow-clients.test.ts']],
    made: {
      'slow requests are not cut': [
        `    requestTimeout: slowClient.requestMs,
`,
        '',
      ],
      'slow headers are not cut': ['headersTimeout: slowClient.headersMs,', ''],
    },
  },
  {
    file: 'src/flows/routes/control-authentication.ts',
    tests: [['test/flows/control-access.test.ts']],
    made: {
      'the control API takes a foreign Host': [
        'return isForeignHost || isForeignOrigin || isCrossSite',
        'return isForeignOrigin || isCrossSite',
      ],
      'the control API takes a foreign Origin': [
        'return isForeignHost || isForeignOrigin || isCrossSite',
        'return isForeignHost || isCrossSite',
      ],
      'the control API takes cross-site requests': [
        'return isForeignHost || isForeignOrigin || isCrossSite',
        'return isForeignHost || isForeignOrigin',
      ],
    },
  },
]
