import { errorBox } from '../shared/errors.js'
import { t, useTexts } from '../shared/i18n.js'
import { html } from '../shared/lit.js'
import { toast } from '../shared/notices.js'
import { loading } from '../shared/parts.js'
import { startPage } from '../shared/start.js'
import { readSession, signOut } from './session.js'
import { createSignIn } from './views/sign-in.js'
import { startWorkspace } from './workspace.js'

const page = startPage({
  createSignIn,
  startWorkspace: (session, { askForToken, ...rest }) =>
    startWorkspace({
      session,
      ...rest,
      onEnd: askForToken,
      // The page forgets at once; that the browser does too is told when it could not be done.
      onSignOut() {
        askForToken()
        signOut().catch(() => toast(t('signOut.failed')))
      },
    }),
})

/** While the service cannot be reached, that is no reason to ask for the token again. */
async function resume() {
  try {
    const session = await readSession()
    if (page.isWorking()) return
    if (session.valid) page.work(session)
    else page.askForToken()
  } catch (error) {
    const box = errorBox(error, () => void resume())
    page.show(() => html`<main class="sign-in">${box}</main>`)
    setTimeout(() => void (!page.isWorking() && resume()), 5000)
  }
}

void useTexts({
  es: () => import('./texts/es.js'),
  en: () => import('./texts/en.js'),
}).then(() => {
  page.show(() => html`<main class="sign-in">${loading()}</main>`)
  return resume()
})
