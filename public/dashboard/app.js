import './texts/use.js'
import { closeDialogs } from '../shared/dialog.js'
import { h, patch } from '../shared/dom.js'
import { errorBox } from '../shared/errors.js'
import { setLanguage, t } from '../shared/i18n.js'
import { languageButton } from '../shared/language-button.js'
import { toast } from '../shared/notices.js'
import { loading } from '../shared/parts.js'
import { readSession, signOut } from './session.js'
import { createSignIn } from './views/sign-in.js'
import { startWorkspace } from './workspace.js'

/** Chooses between asking for a token and working in a session. */
const root = document.getElementById('app')

let workspace
let show = () => h('main', { key: 'start', class: 'sign-in' }, loading())

function redraw() {
  patch(root, [show()])
}

function onLanguage(language) {
  setLanguage(language)
  redraw()
  workspace?.reload()
}

function askForToken(reason) {
  workspace?.stop()
  workspace = undefined
  closeDialogs()
  document.title = 'tillbridge'
  show = createSignIn({
    redraw,
    reason,
    languageButton: () => languageButton(onLanguage),
    onSession,
  })
  redraw()
  document.getElementById('token')?.focus()
}

function onSession(session) {
  workspace = startWorkspace({ session, redraw, onLanguage, onEnd: askForToken, onSignOut })
  show = () => workspace.view()
  redraw()
}

/** The page forgets at once; that the browser does too is told when it could not be done. */
function onSignOut() {
  askForToken()
  signOut().catch(() => toast(t('signOut.failed')))
}

/** While the service cannot be reached, that is no reason to ask for the token again. */
async function resume() {
  try {
    const session = await readSession()
    if (workspace) return
    if (session.valid) onSession(session)
    else askForToken()
  } catch (error) {
    show = () =>
      h(
        'main',
        { key: 'start', class: 'sign-in' },
        errorBox(error, () => void resume()),
      )
    redraw()
    setTimeout(() => void (!workspace && resume()), 5000)
  }
}

redraw()
void resume()
