import type { Mistakes } from './mistakes.ts'

/** Connections of accounts. */
export const logins: readonly Mistakes[] = [
  {
    file: 'src/payments/connection/oauth-login.ts',
    tests: [['test/checks/comparisons.test.ts']],
    made: {
      'the mark of a browser is compared by ===': [
        "!sameSecret(mark, waiting.browser_hash ?? '')",
        'mark !== waiting.browser_hash',
      ],
    },
  },
  {
    file: 'src/payments/connection/oauth-login.ts',
    tests: [['test/payment/oauth-callback.test.ts', 'a return whose iss names another server']],
    made: {
      'any server may send the browser back': [
        'if (request.issuer !== undefined && !deps.provider.oauth.isIssuer(request.issuer)) {',
        'if (false) {',
      ],
    },
  },
  {
    file: 'src/payments/connection/oauth-login.ts',
    tests: [['test/payment/oauth-invitation.test.ts']],
    made: {
      'a return of another browser is taken': [
        "if (isBound && !sameSecret(mark, waiting.browser_hash ?? '')) {",
        'if (!isBound && waiting.client === null) {',
      ],
      'the redirect address is not that of PUBLIC_URL': [
        'deps.settings.publicUrl}/oauth/callback',
        "deps.settings.publicUrl.replace('https', 'http')}/oauth/callback",
      ],
    },
  },
  {
    file: 'src/payments/connection/invitations.ts',
    tests: [['test/payment/oauth-invitation.test.ts']],
    made: {
      'an invitation for one name is one for any': [
        'function invitationContext(client: string): string {',
        "function invitationContext(_: string): string {\n  const client = ''",
      ],
    },
  },
  {
    file: 'src/payments/connection/oauth-login.ts',
    tests: [['test/payment/oauth-callback.test.ts']],
    made: {
      'a state works twice': [
        'const state = await consumeState(database.db, stateHash)',
        'const state = await findState(database.db, stateHash)',
      ],
    },
  },
  {
    file: 'src/payments/connection/oauth-login.ts',
    tests: [['test/payment/oauth-callback.test.ts', 'a login is valid for']],
    made: {
      'a state works for ever': [
        'if (stateHash === undefined || !waiting || waiting.expires_at <= deps.now()) {',
        'if (stateHash === undefined || !waiting) {',
      ],
    },
  },
  {
    file: 'src/payments/connection/oauth-login.ts',
    tests: [['test/payment/oauth-callback.test.ts', 'another account is 409']],
    made: {
      'another account takes the place of the pinned one': [
        "if (pinned !== null && pinned !== mpUserId) throw new AppError('ACCOUNT_MISMATCH')",
        '',
      ],
    },
  },
  {
    file: 'src/payments/connection/oauth-login.ts',
    tests: [['test/payment/takeover.test.ts']],
    made: {
      'a stranger chooses the account of a released client': [
        'if (!mayChoose && !isOpen) throw needsInvitation()',
        '',
      ],
      'keys of another account work on': [
        `        await endForeignKeys(deps, trx, client, mpUserId, entry.actor)
`,
        '',
      ],
    },
  },
  {
    file: 'src/payments/connection/oauth-login.ts',
    tests: [['test/payment/oauth-target.test.ts']],
    made: {
      'any origin is a target': [
        'if (!isLoopback && !isOurs && !deps',
        'if (!isLoopback && isOurs && !deps',
      ],
      'a target with a user name is taken': [
        `  if (url.username !== '' || url.password !== '') throw refused()
`,
        '',
      ],
    },
  },
]
