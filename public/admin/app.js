import { t, useTexts } from '../shared/i18n.js'
import { toast } from '../shared/notices.js'
import { signOut } from '../shared/person-session.js'
import { forgetToken, storedToken, storeToken } from '../shared/session.js'
import { startPage } from '../shared/start.js'
import { createSignIn } from './sign-in.js'
import { startWorkspace } from './workspace.js'

/** Works without a token and without a session until the service asks for one. */
const page = startPage({
  createSignIn: ({ onSession, ...form }) =>
    createSignIn({
      ...form,
      onSession(token) {
        if (token !== undefined) storeToken(token)
        onSession(token)
      },
    }),
  startWorkspace: (token, { askForToken, ...rest }) =>
    startWorkspace({
      token,
      ...rest,
      onUnauthorized(wasSignedIn) {
        forgetToken()
        askForToken(wasSignedIn ? t('signIn.ended') : undefined)
      },
      onSignIn: () => askForToken(undefined, { isPerson: true, onBack: () => page.work(token) }),
      // The page forgets at once; that the browser does too is told when it could not be done.
      onSignOut(person) {
        forgetToken()
        askForToken(undefined, { isPerson: Boolean(person) })
        if (person) signOut().catch(() => toast(t('signOut.failed')))
      },
    }),
})

void useTexts({
  es: () => import('./texts/es.js'),
  en: () => import('./texts/en.js'),
}).then(() => page.work(storedToken() ?? undefined))
