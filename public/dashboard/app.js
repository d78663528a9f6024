import { validateToken } from './api.js'
import { closeDialogs } from './dialog.js'
import { h, patch } from './dom.js'
import { errorBox } from './errors.js'
import { languageButton } from './frame.js'
import { setLanguage, t } from './i18n.js'
import { loading } from './parts.js'
import { forgetToken, storedToken, storeToken } from './session.js'
import { createSignIn } from './views/sign-in.js'
import { startWorkspace } from './workspace.js'

/** Chooses between asking for a token and working with one. */
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
  forgetToken()
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
  storeToken(session.token)
  workspace = startWorkspace({ session, redraw, onLanguage, onEnd: askForToken })
  show = () => workspace.view()
  redraw()
}

/** After a reload the kept token is checked first. While the service cannot be reached, that is no reason to drop it. */
async function resume(token) {
  try {
    const { valid, type, client } = await validateToken(token)
    if (valid) onSession({ token, type, client })
    else askForToken(t('signIn.ended'))
  } catch (error) {
    show = () =>
      h(
        'main',
        { key: 'start', class: 'sign-in' },
        errorBox(error, () => void resume(token)),
      )
    redraw()
    setTimeout(() => void (storedToken() && !workspace && resume(token)), 5000)
  }
}

const token = storedToken()
if (token === null) askForToken()
else {
  redraw()
  void resume(token)
}
