"""How the embedded voice is made: data, codec, language model, export. README.md first."""
