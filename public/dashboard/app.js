import './texts/use.js'
import { closeDialogs } from '../shared/dialog.js'
import { h, patch } from '../shared/dom.js'
import { errorBox } from '../shared/errors.js'
import { setLanguage, t } from '../shared/i18n.js'
import { languageButton } from '../shared/language-button.js'
import { loading } from '../shared/parts.js'
import { forgetToken, storedToken, storeToken } from '../shared/session.js'
import { validateToken } from './validate-token.js'
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
