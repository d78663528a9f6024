import { errorBox } from '../shared/errors.js'
import { t, useTexts } from '../shared/i18n.js'
import { languageButton } from '../shared/language-button.js'
import { html } from '../shared/lit.js'
import { toast } from '../shared/notices.js'
import { loading } from '../shared/parts.js'
import { readSession, signOut } from '../shared/person-session.js'
import { currentRoute } from '../shared/router.js'
import { startPage } from '../shared/start.js'
import { createInvitation } from './views/invitation.js'
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

/** The code leaves the address and the history as soon as it was read. */
function showInvitation(code, signInName) {
  history.replaceState(null, '', `${location.pathname}${location.search}`)
  const form = createInvitation({
    code,
    signInName,
    redraw: () => page.show(form),
    languageButton: () => languageButton(page.onLanguage),
    onSession: page.work,
  })
  page.show(form)
}

/** While the service cannot be reached, that is no reason to ask for the token again. */
async function resume() {
  const { name, id, query } = currentRoute()
  if (name === 'invitation' && id !== undefined) return showInvitation(id, query.name)
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
