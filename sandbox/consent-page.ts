import type { Seller } from './rows.ts'

/** The consent form. It posts to its own address, so the query stays the one that was checked. */
export function consentPage(action: string, sellers: Seller[], host: string): string {
  const options = [
    ...sellers.map((seller) => ({
      value: String(seller.id),
      name: seller.nickname,
      note: `Cuenta ${seller.id}${seller.liveMode ? ' · producción' : ' · prueba'}`,
    })),
    { value: 'new', name: 'Crear una cuenta de prueba', note: 'Un vendedor nuevo, sin cajas' },
  ]
  const choices = options
    .map(
      ({ value, name, note }, index) => `<label class="account">
        <input type="radio" name="user_id" value="${escapeHtml(value)}"${index === 0 ? ' checked' : ''}>
        <span><strong>${escapeHtml(name)}</strong><small>${escapeHtml(note)}</small></span>
      </label>`,
    )
    .join('\n')
  return layout(
    'Autorizar la conexión',
    `<p class="lead"><strong>${escapeHtml(host)}</strong> quiere cobrar en las terminales de tu cuenta.</p>
    <ul class="scopes">
      <li>Crear, leer y cancelar cobros</li>
      <li>Devolver pagos</li>
      <li>Administrar sucursales, cajas y terminales</li>
      <li>Seguir conectada mientras no la quites</li>
    </ul>
    <form method="post" action="${escapeHtml(action)}">
      <fieldset><legend>¿Con qué cuenta?</legend>${choices}</fieldset>
      <div class="answers">
        <button class="main" name="decision" value="approve">Autorizar</button>
        <button name="decision" value="deny">Rechazar</button>
      </div>
    </form>`,
  )
}

export function problemPage(problem: string): string {
  return layout(
    'No se puede autorizar',
    `<p class="lead">${escapeHtml(problem)}</p><p>Revisá la aplicación desde la que llegó.</p>`,
  )
}

function layout(title: string, content: string): string {
  return `<!doctype html>
<html lang="es">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)}</title>
<link rel="icon" href="/page/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/page/consent.css">
</head>
<body>
<main>
<p class="brand">Pruebas <span>no es Mercado Pago</span></p>
<h1>${escapeHtml(title)}</h1>
${content}
</main>
</body>
</html>
`
}

const entities: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => entities[character] ?? '')
}
