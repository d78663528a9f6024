import { t } from '../../shared/i18n.js'
import { readSession } from '../../shared/person-session.js'
import { createSignInForms } from '../../shared/sign-in.js'
import { signIn } from '../session.js'

/** Asks for a token, or for a name and a password, until one is valid, and hands the session to `onSession`. */
export function createSignIn({ onSession, ...form }) {
  // A browser that refuses cookies, or gets one for https over http, would be back here after each look.
  const goOn = async () => {
    const session = await readSession()
    if (!session.valid) return t('signIn.noCookie')
    onSession(session)
    return undefined
  }
  return createSignInForms({
    ...form,
    async enter(token) {
      await signIn(token)
      return goOn()
    },
    goOn,
  })
}
