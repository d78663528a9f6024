import type { Mistake } from './mistake.ts'

/** Connections of accounts. */
export const logins: readonly Mistake[] = [
  {
    name: 'the mark of a browser is compared by ===',
    file: 'src/payments/connection/oauth-login.ts',
    find: "!sameSecret(mark, waiting.browser_hash ?? '')",
    replace: 'mark !== waiting.browser_hash',
    noticedBy: { tests: [['test/checks/comparisons.test.ts']] },
  },
  {
    name: 'any server may send the browser back',
    file: 'src/payments/connection/oauth-login.ts',
    find: 'if (request.issuer !== undefined && !deps.provider.oauth.isIssuer(request.issuer)) {',
    replace: 'if (false) {',
    noticedBy: {
      tests: [['test/payment/oauth-callback.test.ts', 'a return whose iss names another server']],
    },
  },
  {
    name: 'a return of another browser is taken',
    file: 'src/payments/connection/oauth-login.ts',
    find: "if (isBound && !sameSecret(mark, waiting.browser_hash ?? '')) {",
    replace: 'if (!isBound && waiting.client === null) {',
    noticedBy: { tests: [['test/payment/oauth-invitation.test.ts']] },
  },
  {
    name: 'the redirect address is not that of PUBLIC_URL',
    file: 'src/payments/connection/oauth-login.ts',
    find: 'deps.settings.publicUrl}/oauth/callback',
    replace: "deps.settings.publicUrl.replace('https', 'http')}/oauth/callback",
    noticedBy: { tests: [['test/payment/oauth-invitation.test.ts']] },
  },
  {
    name: 'a state works twice',
    file: 'src/payments/connection/oauth-login.ts',
    find: 'const state = await consumeState(database.db, stateHash)',
    replace: 'const state = await findState(database.db, stateHash)',
    noticedBy: { tests: [['test/payment/oauth-callback.test.ts']] },
  },
  {
    name: 'a state works for ever',
    file: 'src/payments/connection/oauth-login.ts',
    find: 'if (stateHash === undefined || !waiting || waiting.expires_at <= deps.now()) {',
    replace: 'if (stateHash === undefined || !waiting) {',
    noticedBy: { tests: [['test/payment/oauth-callback.test.ts', 'a login is valid for']] },
  },
  {
    name: 'another account takes the place of the pinned one',
    file: 'src/payments/connection/oauth-login.ts',
    find: "if (pinned !== null && pinned !== mpUserId) throw new AppError('ACCOUNT_MISMATCH')",
    replace: '',
    noticedBy: { tests: [['test/payment/oauth-callback.test.ts', 'another account is 409']] },
  },
  {
    name: 'a caller without an invitation chooses the account of a released client',
    file: 'src/payments/connection/oauth-login.ts',
    find: 'if (!mayChoose && !isOpen) throw needsInvitation()',
    replace: '',
    noticedBy: { tests: [['test/payment/takeover.test.ts']] },
  },
  {
    name: 'keys of another account work on',
    file: 'src/payments/connection/oauth-login.ts',
    find: `        await endForeignKeys(deps, trx, client, mpUserId, entry.actor)
`,
    replace: '',
    noticedBy: { tests: [['test/payment/takeover.test.ts']] },
  },
  {
    name: 'any origin is a target',
    file: 'src/payments/connection/oauth-login.ts',
    find: 'if (!isLoopback && !isOurs && !deps',
    replace: 'if (!isLoopback && isOurs && !deps',
    noticedBy: { tests: [['test/payment/oauth-target.test.ts']] },
  },
  {
    name: 'a target with a user name is taken',
    file: 'src/payments/connection/oauth-login.ts',
    find: `  if (url.username !== '' || url.password !== '') throw refused()
`,
    replace: '',
    noticedBy: { tests: [['test/payment/oauth-target.test.ts']] },
  },
  {
    name: 'an invitation for one name is one for any',
    file: 'src/payments/connection/invitations.ts',
    find: 'function invitationContext(client: string): string {',
    replace: `function invitationContext(_: string): string {
  const client = ''`,
    noticedBy: { tests: [['test/payment/oauth-invitation.test.ts']] },
  },
]
