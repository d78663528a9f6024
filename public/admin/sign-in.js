import { request } from '../shared/api.js'
import { t } from '../shared/i18n.js'
import { readSession } from '../shared/person-session.js'
import { createSignInForms } from '../shared/sign-in.js'

/** Asks for the control API's token, or for a name and a password, until one is accepted; `onSession` gets the token, if it is one. */
export function createSignIn({ onSession, ...form }) {
  return createSignInForms({
    ...form,
    async enter(token) {
      await request('GET', '/stats', { token })
      onSession(token)
    },
    async goOn() {
      // A browser that refuses cookies, or gets one for https over http, would be back here after each look.
      const { valid, may } = await readSession()
      if (!valid) return t('signIn.noCookie')
      if (!may.includes('see_flows')) return t('signIn.noFlows')
      onSession(undefined)
      return undefined
    },
  })
}
