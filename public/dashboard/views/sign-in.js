import { t } from '../../shared/i18n.js'
import { createTokenForm } from '../../shared/sign-in.js'
import { readSession, signIn } from '../session.js'

/** Asks for a token until one is valid, and hands the session `{type, client}` to `onSession`. */
export function createSignIn({ onSession, ...form }) {
  return createTokenForm({
    ...form,
    async enter(token) {
      await signIn(token)
      // A browser that refuses cookies, or gets one for https over http, would be back here after each look.
      const session = await readSession()
      if (!session.valid) return t('signIn.noCookie')
      onSession(session)
    },
  })
}
