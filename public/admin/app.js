import { t, useTexts } from '../shared/i18n.js'
import { forgetToken, storedToken, storeToken } from '../shared/session.js'
import { startPage } from '../shared/start.js'
import { createSignIn } from './sign-in.js'
import { startWorkspace } from './workspace.js'

/** Works without a token until the service asks for one. */
const page = startPage({
  createSignIn: ({ onSession, ...form }) =>
    createSignIn({
      ...form,
      onToken(token) {
        storeToken(token)
        onSession(token)
      },
    }),
  startWorkspace: (token, { askForToken, ...rest }) =>
    startWorkspace({
      token,
      ...rest,
      onUnauthorized() {
        forgetToken()
        askForToken(token === undefined ? undefined : t('signIn.ended'))
      },
      onSignOut() {
        forgetToken()
        askForToken()
      },
    }),
})

void useTexts({
  es: () => import('./texts/es.js'),
  en: () => import('./texts/en.js'),
}).then(() => page.work(storedToken() ?? undefined))
