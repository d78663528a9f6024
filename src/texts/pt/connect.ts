/** The pages for the owner of a shop who connects an account. */
export const connect = {
  'connect.request_id': 'Para pedir ajuda, informe:',
  'connect.continue': 'Continuar no Mercado Pago',
  'connect.connected.title': 'A conta foi conectada',
  'connect.connected.advice': 'Você já pode fechar esta janela.',
  'connect.invited.title': 'Conectar a conta do Mercado Pago',
  'connect.invited.advice':
    'Esta loja vai cobrar, e poderá devolver dinheiro, com a conta em que você entrar no próximo passo. Continue só se você a conhece e esperava este convite.',
  'connect.on_the_way.title': 'Continue no Mercado Pago',
  'connect.on_the_way.advice': 'Se a página não abrir sozinha, use o botão.',

  'connect.bad_link.title': 'Este link não está completo',
  'connect.bad_link.advice':
    'Abra-o de novo exatamente como o recebeu, ou peça um novo a quem o enviou.',
  'connect.provider_failed.title': 'A conta não foi conectada',
  'connect.provider_failed.advice':
    'O Mercado Pago não respondeu como esperado. Aguarde alguns minutos e abra de novo o link de conexão; se era um convite, peça um novo.',
  'connect.unavailable.title': 'O serviço não pode atender agora',
  'connect.unavailable.advice': 'Tente de novo em alguns minutos.',
  'connect.OAUTH_DENIED.title': 'A conexão não foi autorizada',
  'connect.OAUTH_DENIED.advice':
    'A conta não foi conectada. Se foi sem querer, abra de novo o link de conexão; se era um convite, peça um novo.',
  'connect.OAUTH_STATE_INVALID.title': 'Esta tentativa de conexão já não vale',
  'connect.OAUTH_STATE_INVALID.advice':
    'Ela já foi usada, passaram mais de dez minutos ou começou em outro navegador. Se você viu que a conta foi conectada, não falta nada. Se não, abra de novo o link de conexão; se era um convite, peça um novo.',
  'connect.INVITATION_INVALID.title': 'Este convite já não vale',
  'connect.INVITATION_INVALID.advice':
    'Cada convite vale uma só vez, dentro de um dia. Peça um novo a quem o enviou.',
  'connect.FORBIDDEN.title': 'É preciso um convite',
  'connect.FORBIDDEN.advice':
    'Esta conexão começa com um link de convite. Peça-o a quem administra o serviço.',
  'connect.UNKNOWN_HOST.title': 'Este não é o endereço do serviço',
  'connect.UNKNOWN_HOST.advice':
    'Abra o link exatamente como o recebeu. Se já fez isso, avise quem administra o serviço.',
  'connect.OAUTH_ALREADY_CONNECTED.title': 'A conta já está conectada',
  'connect.OAUTH_ALREADY_CONNECTED.advice': 'Não falta nada: você pode fechar esta janela.',
  'connect.API_KEY_REQUIRED.title': 'Esta loja não pode se conectar',
  'connect.API_KEY_REQUIRED.advice':
    'Todas as suas chaves foram revogadas. Fale com quem administra o serviço.',
  'connect.ACCOUNT_MISMATCH.title': 'Foi escolhida outra conta',
  'connect.ACCOUNT_MISMATCH.advice':
    'Esta loja pertence a outra conta do Mercado Pago. Abra de novo o link de conexão e entre com essa conta; para trocá-la, fale com quem administra o serviço.',
  'connect.RATE_LIMITED.title': 'Tentativas demais',
  'connect.RATE_LIMITED.advice': 'Aguarde um minuto e abra de novo o link.',
} as const
