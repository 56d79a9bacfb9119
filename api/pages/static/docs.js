// Starts the documentation on this service's own description.
"use strict";
SwaggerUIBundle({ url: "/openapi.json", dom_id: "#docs", deepLinking: true, validatorUrl: null, docExpansion: "list", defaultModelsExpandDepth: 0 });
